"""When a run writes checkpoints: every so many steps, only on request, or as often as their measured cost is worth.

A `CheckpointPlan` has one of these; all workers ask it, and must get the same answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple, Protocol

from polyrhythm.core.processes.runtime.stall_detection import SILENT_SECONDS

_NEVER = 2**62
_FIRST = 10
"""So many steps are timed before the first checkpoint, whose cost decides when the next is due."""
_PRIOR_SECONDS = 24 * 3600.0
"""A worker is assumed to be lost once a day, until the run has seen more."""


class MeasuredCosts(NamedTuple):
    """What the first worker has measured so far, in seconds: a step, writing a checkpoint, starting the run, and its whole time; and how
    many of the `workers` were lost in it.
    """

    step: float
    write: float
    restart: float
    seconds: float
    workers: int
    losses: int


class CheckpointMoments(Protocol):
    """Decides after which steps checkpoints are written."""

    def after(self, step: int) -> int:
        """The step at which the next checkpoint after `step` is due, where the workers have agreed on no other."""

    def agreed(self, step: int, measured: MeasuredCosts) -> int | None:
        """The step of the next checkpoint after the one of `step`, on which all agree; None where `after` says it."""


@dataclass(frozen=True, slots=True)
class OnRequest:
    """Only where the training function calls `worker.save()`, and when a run is asked to stop."""

    def after(self, step: int) -> int:
        return _NEVER

    def agreed(self, step: int, measured: MeasuredCosts) -> None:
        """Nothing to agree on."""


@dataclass(frozen=True, slots=True)
class EverySteps:
    """At each multiple of `steps`."""

    steps: int

    def after(self, step: int) -> int:
        return (step // self.steps + 1) * self.steps

    def agreed(self, step: int, measured: MeasuredCosts) -> None:
        """Nothing to agree on."""


@dataclass(frozen=True, slots=True)
class ByCost:
    """At the interval that costs least, as measured until the last checkpoint; `mtbf` is the run's mean time between failures in hours.

    Without `mtbf` it is estimated: a worker is assumed to be lost once a day, and the run's own time and losses are added to that.
    """

    mtbf: float | None = None

    def after(self, step: int) -> int:
        return step + _FIRST

    def agreed(self, step: int, measured: MeasuredCosts) -> int:
        """The step that is one interval later, which is no shorter than the time in which a silent worker is noticed."""
        if measured.step <= 0:
            return self.after(step)
        failures = 3600 * self.mtbf if self.mtbf is not None else seconds_between_failures(measured)
        seconds = max(SILENT_SECONDS, best_interval(measured.write, measured.restart, failures))
        return step + max(1, round(seconds / measured.step))


def best_interval(write: float, restart: float, failures: float) -> float:
    """The seconds from one checkpoint to the next, writing included, with which least time is lost (NVIDIA, arXiv 2410.18124).

    T = T_s + √(2 (T_f + T_r) T_s + T_s²): T_s to `write` one, T_r to `restart`, T_f from one failure of the run to the next.

    Examples:
        >>> round(best_interval(write=30.0, restart=300.0, failures=24 * 3600.0))
        2311
    """
    return write + sqrt(2 * (failures + restart) * write + write * write)


def seconds_between_failures(measured: MeasuredCosts) -> float:
    """The mean time between failures of a run, from its own time and losses and a prior of one loss a day for each worker."""
    return (_PRIOR_SECONDS + measured.workers * measured.seconds) / (1 + measured.losses) / measured.workers
