"""The training of a candidate as far as it is known: its curve, and what it cost. Findings keep it, and the stages of a search read it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from polyrhythm.core.kernel.events import Stepped
from polyrhythm.core.records.metrics import Target, curve_of
from polyrhythm.core.training.run import Attempt
from polyrhythm.errors import BrokenOff
from polyrhythm.hardware.meters import LineUse
from polyrhythm.tools.planner.objective import Objective, Spent
from polyrhythm.tools.planner.run_notes import CUT, HELD, LINES, PAUSED, REAL


class CurvePoint(msgspec.Struct, frozen=True):
    """An evaluation: what had been used by then, by all workers, and the metric's value."""

    seconds: float
    nbytes: float
    samples: float
    value: float

    def spent(self, workers: int) -> Spent:
        """The resources that were used by then, by so many workers."""
        return Spent(self.seconds, self.nbytes, workers)


class TrainedRun(msgspec.Struct, frozen=True):
    """A run with real gradients, over `limit` steps of each worker at most.

    `reached` is the place of the first evaluation that meets the target, -1 where none does; `seconds`, `nbytes` and `samples` are those
    of the whole run, and `begun` those by the first step of the last worker: until then weights are copied, once. `cut` is why it was
    ended early, and `error` why it failed; `over` says that it ended by itself, before its limit. `held` are the
    bytes that worker 0 held between steps, 0 where that is not known, and `real` the seconds that the run took by the clock.
    `lines` has the part of all bytes that went over each metered line. `later` are seconds, bytes and samples at half of the samples: what
    comes after shows the pace, where the beginning has a warm-up. `like` names the run whose curve this is, where only steps were timed.
    """

    curve: list[CurvePoint]
    reached: int
    seconds: float
    nbytes: float
    samples: float
    limit: int
    over: bool = False
    cut: str = ""
    error: str = ""
    held: int = 0
    real: float = 0.0
    begun: tuple[float, float, float] = (0.0, 0.0, 0.0)
    lines: dict[str, LineUse] = {}
    later: tuple[float, float, float] = (0.0, 0.0, 0.0)
    like: str = ""

    @staticmethod
    def of(attempt: Attempt, target: Target, limit: int, uncounted: int = 0) -> TrainedRun:
        """The results of a run, whole or broken off; a step has `uncounted` samples where the JOB counts none."""
        steps_taken = [event for event in attempt.outcome.events if isinstance(event, Stepped)]
        first, stepped = {event.actor: event for event in reversed(steps_taken)}, {event.actor: event for event in steps_taken}
        taken, steps = Taken(steps_taken, uncounted), max((event.clock for event in stepped.values()), default=0)
        curve = [
            CurvePoint(event.time, event.bytes_sent, taken.by(event.time), event.metrics[target.metric])
            for event in curve_of(attempt.outcome, target.metric)
        ]
        reached = next((place for place, point in enumerate(curve) if target.met_by(point.value)), -1)
        seconds = max((event.time for event in stepped.values()), default=0.0)
        nbytes = max((event.bytes_sent for event in stepped.values()), default=0)
        cut = str(attempt.error) if isinstance(attempt.error, BrokenOff) else attempt.outcome.settings.get(CUT, "")
        limit = min(limit, steps) if PAUSED in attempt.outcome.settings else limit
        held = int(attempt.outcome.settings.get(HELD, 0))
        real = float(attempt.outcome.settings.get(REAL, 0.0))
        error = "" if isinstance(attempt.error, BrokenOff) or attempt.error is None else str(attempt.error)
        return TrainedRun(
            curve,
            reached,
            seconds,
            nbytes,
            taken.by(math.inf),
            limit,
            steps < limit and not cut,
            cut,
            error,
            held,
            real,
            _start(list(first.values()), taken),
            msgspec.json.decode(attempt.outcome.settings.get(LINES, "{}"), type=dict[str, LineUse]),
            _half(steps_taken, taken),
        )

    def delayed(self, later: Callable[[float, float], float]) -> TrainedRun:
        """The run in which what was at so many seconds, with so many samples, is `later`, as where data have to be fetched."""
        curve = [replace(point, seconds=later(point.seconds, point.samples)) for point in self.curve]
        begun, half = ((later(each[0], each[2]), *each[1:]) for each in (self.begun, self.later))
        return replace(self, curve=curve, seconds=later(self.seconds, self.samples), begun=begun, later=half)

    @property
    def end(self) -> CurvePoint | None:
        """The evaluation that reached the target; None where none did."""
        return self.curve[self.reached] if self.reached >= 0 else None

    def cost(self, objective: Objective, workers: int) -> float:
        """Its cost to the target, by the objective; infinite where that was not reached."""
        return math.inf if self.end is None else objective.cost(self.end.spent(workers))

    def cost_of(self, samples: float, objective: Objective, workers: int) -> float:
        """The cost of so many samples, at the rate of this run after its beginning."""
        if not self.samples or samples == math.inf:
            return math.inf
        seconds, nbytes, used = self.begun if self.begun[2] < min(samples, self.samples) else (0.0, 0.0, 0.0)
        part = (samples - used) / (self.samples - used)
        return objective.cost(Spent(seconds + part * (self.seconds - seconds), nbytes + part * (self.nbytes - nbytes), workers))

    def best(self, target: Target) -> float | None:
        """The best value; None where nothing was evaluated."""
        return target.best(point.value for point in self.curve) if self.curve else None


class Taken:
    """The samples that all workers had computed on, by time; between the steps that are known a worker's increase evenly.

    A step has `uncounted` samples where none were counted.
    """

    def __init__(self, steps: Sequence[Stepped], uncounted: int = 0) -> None:
        self.known: dict[str, tuple[list[float], list[float]]] = {}
        for event in steps:
            times, samples = self.known.setdefault(event.actor, ([], []))
            times.append(event.time)
            samples.append(float(event.samples or uncounted * event.clock))

    def by(self, moment: float) -> float:
        """The samples of all workers until `moment`."""
        return sum(float(np.interp(moment, times, samples, left=0.0)) for times, samples in self.known.values())


def _start(first: Sequence[Stepped], taken: Taken) -> tuple[float, float, float]:
    """Seconds, bytes and samples by which each had taken its first step."""
    if not first:
        return 0.0, 0.0, 0.0
    seconds = max(each.time for each in first)
    return seconds, float(max(each.bytes_sent for each in first)), taken.by(seconds)


def _half(steps: Sequence[Stepped], taken: Taken) -> tuple[float, float, float]:
    """Seconds, bytes and samples when half of the samples were taken."""
    whole = taken.by(math.inf)
    for place in sorted(range(len(steps)), key=lambda each: steps[each].time):
        if (samples := taken.by(steps[place].time)) >= whole / 2:
            by = [each.bytes_sent for each in steps if each.time <= steps[place].time]
            return steps[place].time, float(max(by)), samples
    return 0.0, 0.0, 0.0
