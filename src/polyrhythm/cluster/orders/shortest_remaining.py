"""The job with the shortest remaining time first: the bound that others are compared with, since it must know durations."""

from __future__ import annotations

import math
from dataclasses import dataclass

from polyrhythm.cluster.state import JobRecord
from polyrhythm.core.settings import checked


@dataclass(frozen=True, slots=True)
@checked
class ShortestRemaining:
    """By what is left of the estimates, which an oracle has from the trace; jobs without one come last.

    A job takes the place of another only if it has less than `ratio` of its remaining time left.
    """

    ratio: float = 1.0

    def key(self, record: JobRecord, now: float) -> tuple[float, ...]:
        """The seconds that are left, and the number of its arrival."""
        return (remaining(record, now), record.sequence)

    def precedes(self, claimant: JobRecord, victim: JobRecord, now: float) -> bool:
        """True if the claimant has clearly less left."""
        return remaining(claimant, now) < self.ratio * remaining(victim, now) - 1e-3

    def changes(self, record: JobRecord, now: float) -> float | None:
        """Never: what runs only comes closer to its end."""
        return None


def remaining(record: JobRecord, now: float) -> float:
    """The seconds that are left of a job's estimate; infinite without one."""
    return math.inf if record.job.estimate is None else max(0.0, record.job.estimate - record.ran_at(now))
