"""The parts of their time for which workers computed and waited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from polyrhythm.core.records.outcome import Outcome
from polyrhythm.tools.report.each_worker import totals
from polyrhythm.tools.report.series import Series


@dataclass(frozen=True, slots=True)
class Shares:
    """The parts of all workers' time, from 0 to 1; the mean over the seeds of one system."""

    series: Series
    computing: float
    waiting: float


def shares_of(group: Sequence[Series]) -> list[Shares]:
    """The shares by name, in the order of the runs; without those that recorded no time."""
    measured: dict[str, list[tuple[Series, tuple[float, float]]]] = {}
    for one in group:
        parts = shares(one.outcome)
        if parts is not None:
            measured.setdefault(one.name, []).append((one, parts))
    return [Shares(runs[0][0], fmean(parts[0] for _, parts in runs), fmean(parts[1] for _, parts in runs)) for runs in measured.values()]


def shares(outcome: Outcome) -> tuple[float, float] | None:
    """The parts of all workers' time until their last steps that went into computing and into waiting; None where no time was recorded."""
    workers = totals(outcome).values()
    whole = sum(worker.last or outcome.time for worker in workers)
    computed, waited = sum(worker.computed for worker in workers), sum(worker.waited for worker in workers)
    return (computed / whole, waited / whole) if whole > 0 and computed + waited > 0 else None
