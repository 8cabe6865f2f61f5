"""Room for a job that waits, taken from jobs that run: by priority, by order, or because another queue has more than its share.

With no arrivals and ends, evictions are finite: a job stops another at most once in an epoch of the state. Two jobs never stop each other,
except where the order between them has changed since, as after one of them has attained more; its levels only rise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from polyrhythm.cluster.placements import JobPlacement
from polyrhythm.cluster.protocols import OrderPolicy
from polyrhythm.cluster.reasons import ChangeReason, MadeRoom, Overtaken, Preempted, Reclaimed
from polyrhythm.cluster.state import ClusterState, JobRecord
from polyrhythm.cluster.transaction import Transaction
from polyrhythm.core.settings import checked

Attempt = Callable[[JobRecord, Transaction], JobPlacement | None]


@dataclass(frozen=True, slots=True)
class Situation:
    """What a preemption depends on, besides the job: `fair` are the shares of (queue, kind); `attempt` places a gang if it can."""

    state: ClusterState
    now: float
    order: OrderPolicy
    fair: Mapping[tuple[str, str], float]
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Concession:
    """One job keeps only these slots, or none, for this reason."""

    job: str
    kept: JobPlacement | None
    reason: ChangeReason


@dataclass(frozen=True, slots=True)
class Room:
    """The place for a job, and what others concede for it; the trial has these already, and not yet the job."""

    placement: JobPlacement
    concessions: tuple[Concession, ...]


class PreemptionRule(Protocol):
    """When running jobs make room for one that waits."""

    def make_room(self, record: JobRecord, trial: Transaction, situation: Situation) -> Room | None:
        """Let jobs in `trial` concede what the job needs; None, and the trial as it was, where that is not possible."""


@dataclass(frozen=True, slots=True)
@checked
class NoPreemption:
    """Whatever runs, runs to its end."""

    def make_room(self, record: JobRecord, trial: Transaction, situation: Situation) -> Room | None:
        """None."""
        return None


@dataclass(frozen=True, slots=True)
@checked
class Preemption:
    """Malleable jobs shrink first, then jobs stop, those that come last first; what the job turns out not to need is given back.

    A job may be stopped after `min_runtime` seconds. In the same queue it makes way for a higher priority, or for one that precedes it
    in the order. Another queue takes back its share from one that still has its own share afterwards. For `cooldown` seconds a job does not
    reclaim from the queue for which it was stopped.
    """

    min_runtime: float = 0.0
    cooldown: float = 300.0

    def make_room(self, record: JobRecord, trial: Transaction, situation: Situation) -> Room | None:
        """Find the fewest concessions in that order, then give back each that is not needed."""
        steps = list(self._steps(record, trial, situation))
        start = trial.mark()
        few, many, enough = 1, len(steps), False
        while few <= many:
            count = (few + many) // 2 if enough else many  # first all: mostly it is clear at once that nothing helps
            _concede(steps[:count], trial)
            fits = situation.attempt(record, trial) is not None
            trial.rollback(start)
            if not fits and not enough:
                return None
            enough, few, many = True, (few if fits else count + 1), (count - 1 if fits else many)
        if not enough:
            return None
        needed = _last(steps[:few])
        _concede(list(needed.values()), trial)
        for name in reversed(list(needed)):
            self._give_back(name, needed, steps, record, trial, situation)
        placement = situation.attempt(record, trial)
        if placement is None:
            trial.rollback(start)
            return None
        return Room(placement, tuple(needed.values()))

    def _give_back(
        self, name: str, needed: dict[str, Concession], steps: list[Concession], record: JobRecord, trial: Transaction, situation: Situation
    ) -> None:
        """Give a job back all that it conceded, or let it shrink instead of stopping, if the job that waits still fits."""
        before = situation.state.jobs[name].placement
        smaller = next((step for step in steps if step.job == name and step.kept is not None), None)
        for placement, concession in ((before, None), (smaller.kept if smaller else None, smaller)):
            if placement is None or needed.get(name) == concession:
                continue
            mark = trial.mark()
            if needed[name].kept is not None:
                trial.remove(name)
            if trial.fits(placement):
                trial.place(placement)
                if situation.attempt(record, trial) is not None:
                    if concession is None:
                        del needed[name]
                        return
                    needed[name] = concession
                    return
            trial.rollback(mark)

    def _steps(self, record: JobRecord, trial: Transaction, situation: Situation) -> Iterator[Concession]:
        """All legal concessions, in the order in which they are asked for; none takes a queue below its share, all before it included."""
        state = situation.state
        running = [state.jobs[name] for name, placement in trial.placements.items() if state.jobs[name].placement is placement]
        stops = [(other, reason) for other in running if (reason := self._stops(record, other, situation)) is not None]
        shrinks = [
            (other, reason)
            for other in running
            if len(trial.placements[other.job.name].slots) > other.job.least and (reason := self._shrinks(record, other, situation))
        ]
        taken: dict[tuple[str, str], float] = {}
        small: set[str] = set()
        for other, reason in _last_first(shrinks, situation):
            placement, least = trial.placements[other.job.name], other.job.least
            if _spare(record, other, (len(placement.slots) - least) * other.job.demand.amount, taken, trial, situation):
                small.add(other.job.name)
                yield Concession(other.job.name, placement.fewer(least), reason)
        for other, reason in _last_first(stops, situation):
            workers = other.job.least if other.job.name in small else len(trial.placements[other.job.name].slots)
            if _spare(record, other, workers * other.job.demand.amount, taken, trial, situation):
                yield Concession(other.job.name, None, reason)

    def _shrinks(self, record: JobRecord, other: JobRecord, situation: Situation) -> ChangeReason | None:
        """Why `other` gives up workers that it can do without; None if it does not."""
        if other.job.queue != record.job.queue:
            return self._stops(record, other, situation)
        return MadeRoom(record.job.name) if other.job.priority <= record.job.priority else None

    def _stops(self, record: JobRecord, other: JobRecord, situation: Situation) -> ChangeReason | None:
        """Why `other` may be stopped for the job; None if it may not."""
        job, now = record.job, situation.now
        if not other.job.preemptible or now - other.started < self.min_runtime:
            return None
        if any(past.by == job.name and past.epoch == situation.state.epoch for past in other.evictions):
            return None  # once in an epoch
        stopped_by_it = [past for past in record.evictions if past.by == other.job.name]
        if any(not past.for_order for past in stopped_by_it):
            return None  # never each other
        if other.job.queue != job.queue:
            cooling = any(past.queue == other.job.queue and now < past.at + self.cooldown for past in record.evictions)
            return None if cooling or stopped_by_it else Reclaimed(job.name, job.queue)
        if other.job.priority < job.priority:
            return None if stopped_by_it else Preempted(job.name)
        if other.job.priority == job.priority and situation.order.precedes(record, other, now):
            return Overtaken(job.name)
        return None


def _last_first(found: list[tuple[JobRecord, ChangeReason]], situation: Situation) -> list[tuple[JobRecord, ChangeReason]]:
    """By priority, the lowest first, and then against the order of the policy."""
    return sorted(found, key=lambda each: (each[0].job.priority, [-part for part in situation.order.key(each[0], situation.now)]))


def _spare(
    record: JobRecord, other: JobRecord, amount: float, taken: dict[tuple[str, str], float], trial: Transaction, situation: Situation
) -> bool:
    """True, and noted, if the queue of `other` has its share without the amount, and that of the job no more than its share with it."""
    if other.job.queue == record.job.queue:
        return True
    kind = other.job.demand.kind
    if kind != record.job.demand.kind:
        return False
    mine, theirs = _sides(trial.line(record.job.queue), trial.line(other.job.queue))
    wants = record.job.least * record.job.demand.amount
    if mine is None or theirs is None or trial.used(mine, kind) + wants > situation.fair[mine, kind]:
        return False
    if trial.used(theirs, kind) - taken.get((theirs, kind), 0.0) - amount < situation.fair[theirs, kind]:
        return False
    taken[theirs, kind] = taken.get((theirs, kind), 0.0) + amount
    return True


def _sides(mine: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[str | None, str | None]:
    """The two queues, above or equal to the given ones, that have the same parent; None where one queue is above the other."""
    own = next((name for name in reversed(mine) if name not in theirs), None)
    other = next((name for name in reversed(theirs) if name not in mine), None)
    return own, other


def _last(steps: list[Concession]) -> dict[str, Concession]:
    """The last concession of each job."""
    return {step.job: step for step in steps}


def _concede(steps: list[Concession], trial: Transaction) -> None:
    for step in _last(steps).values():
        trial.remove(step.job)
        if step.kept is not None:
            trial.place(step.kept)
