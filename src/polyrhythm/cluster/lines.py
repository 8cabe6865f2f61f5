"""What follows for later jobs when an earlier one cannot start."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from polyrhythm.cluster.jobs import WorkerDemand
from polyrhythm.cluster.placements import JobPlacement
from polyrhythm.cluster.protocols import Placer
from polyrhythm.cluster.state import JobRecord
from polyrhythm.cluster.transaction import Hold, Transaction
from polyrhythm.core.settings import checked


@dataclass(frozen=True, slots=True)
class Reservation:
    """Slots that are kept for a job; `starts` is when it can start at the latest, as far as estimates say, and None if they do not."""

    placement: JobPlacement
    demand: WorkerDemand
    starts: float | None
    held: tuple[Hold, ...]


class LineRule(Protocol):
    """What a job that waits means for those behind it."""

    def stops(self, blocked: int) -> bool:
        """True if nobody may start after so many jobs that could not."""

    def reserve(self, record: JobRecord, reserved: int, trial: Transaction, placer: Placer, now: float) -> Reservation | None:
        """What is kept for a job that cannot start, when `reserved` reservations are there already."""


@dataclass(frozen=True, slots=True)
@checked
class StrictLine:
    """Nobody passes a job that waits."""

    def stops(self, blocked: int) -> bool:
        """After the first."""
        return blocked > 0

    def reserve(self, record: JobRecord, reserved: int, trial: Transaction, placer: Placer, now: float) -> Reservation | None:
        """Nothing: nobody comes after it."""
        return None


@dataclass(frozen=True, slots=True)
@checked
class Backfill:
    """Backfill: the first jobs that wait reserve their slots, and later jobs start where they delay none of these.

    A later job may use reserved slots if its estimate says that it will have ended when they are needed. There are at most `reservations`:
    one is enough that nobody starves, all are conservative backfill, and each needs some trial placements.
    """

    reservations: int = 1

    def stops(self, blocked: int) -> bool:
        """Never."""
        return False

    def reserve(self, record: JobRecord, reserved: int, trial: Transaction, placer: Placer, now: float) -> Reservation | None:
        """The slots that become free first: running jobs are taken away in the order of their expected ends, until the gang fits."""
        if reserved >= self.reservations:
            return None
        ends = sorted((_end(trial.state.jobs[name], now), trial.state.jobs[name].sequence, name) for name in trial.placements)

        start, marks = trial.mark(), [trial.mark()]  # marks[k]: k jobs are taken away
        few, many, found = 0, len(ends), None
        while few <= many:
            count = (few + many) // 2 if found is not None else min(max(1, 2 * (len(marks) - 1)), len(ends))
            trial.rollback(marks[min(count, len(marks) - 1)])
            del marks[count + 1 :]
            for _, _, name in ends[len(marks) - 1 : count]:
                trial.remove(name)
                marks.append(trial.mark())
            placement = placer.place(record, trial)
            if placement is None:
                few = count + 1
            else:
                found, many = placement, count - 1
            if found is None and count == len(ends):
                break
        trial.rollback(start)
        if found is None:
            return None
        ended = ends[many][0] if many >= 0 else now  # it fits when many + 1 jobs are away, and not before
        return Reservation(found, record.job.demand, ended if ended < math.inf else None, trial.hold(found, record.job.demand))


def _end(record: JobRecord, now: float) -> float:
    """The expected end of a job that runs, or was placed in this decision; infinite without an estimate."""
    if record.job.estimate is None:
        return math.inf
    ends = record.ends(now)
    return now + max(0.0, record.job.estimate - record.ran) if ends is None else ends
