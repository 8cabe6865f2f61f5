"""What follows for later jobs when an earlier one cannot start."""

from __future__ import annotations

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
    """Conservative backfill: the first jobs that wait reserve their slots, and later jobs start where they delay none of these.

    A later job may use reserved slots if its estimate says that it will have ended when they are needed. There are at most `reservations`;
    each needs some trial placements.
    """

    reservations: int = 4

    def stops(self, blocked: int) -> bool:
        """Never."""
        return False

    def reserve(self, record: JobRecord, reserved: int, trial: Transaction, placer: Placer, now: float) -> Reservation | None:
        """The slots that become free first: running jobs are taken away in the order of their expected ends, until the gang fits."""
        if reserved >= self.reservations:
            return None
        ends = sorted(
            (_end(trial.state.jobs[name], name in trial.state.running, now), trial.state.jobs[name].sequence, name)
            for name in trial.placements
        )
        few, many, found = 1, len(ends), None
        while few <= many:
            count = (few + many) // 2
            mark = trial.mark()
            for _, _, name in ends[:count]:
                trial.remove(name)
            placement = placer.place(record, trial)
            trial.rollback(mark)
            if placement is None:
                few = count + 1
            else:
                found, many = (placement, ends[count - 1][0]), count - 1
        if found is None:
            return None
        starts = found[1] if found[1] < float("inf") else None
        return Reservation(found[0], record.job.demand, starts, trial.hold(found[0], record.job.demand))


def _end(record: JobRecord, runs: bool, now: float) -> float:
    """The expected end of a job that runs, or was placed in this decision; infinite without an estimate."""
    if record.job.estimate is None:
        return float("inf")
    ends = record.ends(now) if runs else now + max(0.0, record.job.estimate - record.ran)
    return float("inf") if ends is None else ends
