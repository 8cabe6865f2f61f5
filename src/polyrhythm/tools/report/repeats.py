"""Runs that differ in their seed alone, as one row: medians, and the least and the greatest."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean

from polyrhythm.core.records.metrics import Measured, Target, not_yet
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.tools.report.series import Series


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some values, the least and the greatest of them; infinite for a target that no run reached."""

    median: float
    least: float
    greatest: float

    def shown(self, show: Callable[[float], str], never: str = "never") -> str:
        """The median, and behind it the range, where that reads differently."""
        shown = [show(value) if math.isfinite(value) else never for value in (self.median, self.least, self.greatest)]
        return shown[0] if shown[1] == shown[2] else f"{shown[0]}\n({shown[1]} to {shown[2]})"

    def overlaps(self, other: Spread) -> bool:
        """True if some value of the one is as small as some of the other, both ways."""
        return self.least <= other.greatest and other.least <= self.greatest


def spread(values: Sequence[float]) -> Spread:
    """The median is that of two in the middle where their number is even; `values` are not empty."""
    ranked = sorted(values)
    middle = ranked[(len(ranked) - 1) // 2], ranked[len(ranked) // 2]
    return Spread(middle[0] if middle[0] == middle[1] else (middle[0] + middle[1]) / 2, ranked[0], ranked[-1])


@dataclass(frozen=True, slots=True)
class Repeats:
    """One system under one or several seeds; it has the look of its first run."""

    label: str
    runs: tuple[Series, ...]

    @property
    def first(self) -> Series:
        """The run whose look and circumstances stand for all: one that ended well, if any did."""
        return next((run for run in self.runs if not run.failed), self.runs[0])

    @property
    def system(self) -> str:
        """The published name of the runs' system."""
        return self.first.outcome.summary.system

    @property
    def ended(self) -> list[Outcome]:
        """The outcomes of the runs that ended well."""
        return [run.outcome for run in self.runs if not run.failed]

    @property
    def failed(self) -> bool:
        """True if none of the runs ended well."""
        return not self.ended

    @property
    def known(self) -> list[Outcome]:
        """The runs to take numbers from: those that ended well, or all where none did."""
        return self.ended or [run.outcome for run in self.runs]

    def of(self, value: Callable[[Outcome], float]) -> Spread:
        """The spread of `value` over the runs."""
        return spread([value(outcome) for outcome in self.known])

    def final(self, metric: str) -> Spread | None:
        """The spread of the runs' last values of `metric`; None if none of them reported it."""
        values = [outcome.summary.final[metric] for outcome in self.known if metric in outcome.summary.final]
        return spread(values) if values else None

    def to(self, target: Target) -> Spread:
        """Seconds to `target`, infinite for runs that did not reach it or failed."""
        return spread([self._seconds_to(target, run) for run in self.runs])

    def window(self, target: Target) -> tuple[float, float]:
        """Between which moments `target` was reached in the run (the two runs) whose time to it is the median, which must be finite."""
        found = self._middle(target)
        return mean(not_yet(event) for event in found), mean(event.time for event in found)

    def reached(self, target: Target) -> int:
        """The number of runs that reached `target`."""
        return sum(math.isfinite(self._seconds_to(target, run)) for run in self.runs)

    def bytes_to(self, target: Target) -> float:
        """Bytes that all had sent at `target` in the run (the two runs) whose time to it is the median, which must be finite."""
        return mean(event.bytes_sent for event in self._middle(target))

    def _middle(self, target: Target) -> list[Measured]:
        ranked = sorted(self.runs, key=lambda run: self._seconds_to(target, run))
        middle = (ranked[(len(ranked) - 1) // 2], ranked[len(ranked) // 2])
        return [event for run in middle if (event := target.first_reached(run.outcome)) is not None]

    @staticmethod
    def _seconds_to(target: Target, run: Series) -> float:
        report = target.first_reached(run.outcome) if not run.failed else None
        return math.inf if report is None else report.time


def repeats_of(group: Sequence[Series]) -> list[Repeats]:
    """The runs of `group`, those of one name together: they differ in their seed alone."""
    found: dict[str, list[Series]] = {}
    for one in group:
        found.setdefault(one.name, []).append(one)
    return [Repeats(name if len(runs) > 1 else runs[0].label, tuple(runs)) for name, runs in found.items()]
