"""Who may start: jobs in their order, each with its place, its reservation, or its reason to wait."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass

from polyrhythm.cluster.jobs import ClusterJob
from polyrhythm.cluster.lines import LineRule, Reservation
from polyrhythm.cluster.placements import JobPlacement
from polyrhythm.cluster.preemption import PreemptionRule, Situation
from polyrhythm.cluster.protocols import OrderPolicy, Placer
from polyrhythm.cluster.queues import KINDS, fair_shares
from polyrhythm.cluster.reasons import ChangeReason, InLine, NotChosen, OverLimit, Reserved, Shortage, WaitReason
from polyrhythm.cluster.shortage import shortage
from polyrhythm.cluster.state import JobRecord
from polyrhythm.cluster.transaction import Transaction


@dataclass(frozen=True, slots=True)
class AdmissionRules:
    """The order, what a waiting job means for later ones, and when running jobs make way."""

    order: OrderPolicy
    line: LineRule
    preemption: PreemptionRule


class AdmissionPass:
    """One pass over the jobs that wait; `reasons` has why running jobs were changed."""

    def __init__(self, trial: Transaction, placer: Placer, rules: AdmissionRules, now: float) -> None:
        self.reasons: dict[str, ChangeReason] = {}
        self._trial = trial
        self._placer = placer
        self._rules = rules
        self._now = now
        self._waits: dict[str, WaitReason] = {}
        self._reservations: dict[str, Reservation] = {}
        self._hopeless: dict[object, WaitReason] = {}
        fair = _shares(trial)
        self._situation = Situation(trial.state, now, rules.order, fair, self._attempt)

    def admit(self) -> dict[str, WaitReason]:
        """Start what can start, and say why each other job waits."""
        for record in self._in_order():
            self._start(record, may_preempt=True)
        for name in [name for name in self.reasons if name not in self._trial.placements]:  # those that made way may fit elsewhere
            self._start(self._trial.state.jobs[name], may_preempt=False)
        for reservation in self._reservations.values():
            self._trial.release(reservation.held)
        if not self._waits:
            self._grow()
        return self._final()

    def _final(self) -> dict[str, WaitReason]:
        """The reasons as they are at the end: what later jobs have taken is short as well."""
        known: dict[object, WaitReason] = {}
        for name, reason in self._waits.items():
            record = self._trial.state.jobs[name]
            match reason:
                case Shortage():
                    if record.job.shape not in known:
                        known[record.job.shape] = self._short(record)
                    self._waits[name] = known[record.job.shape]
        return self._waits

    def _short(self, record: JobRecord) -> WaitReason:
        found = shortage(record, self._trial)
        return found if found.room < record.job.least else NotChosen("has room, and the policy keeps it for a better choice")

    def _start(self, record: JobRecord, may_preempt: bool) -> None:
        job = record.job
        if self._rules.line.stops(len(self._waits)):
            self._waits[job.name] = InLine(next(iter(self._waits)))
            return
        lifted = tuple(name for name, kept in self._reservations.items() if self._ends_before(record, kept))
        kind = (job.shape, job.queue, job.priority, self._rules.order.key(record, self._now)[:-1], lifted, len(self._reservations))
        reason = self._hopeless.get(kind) if not record.evictions else None
        if reason is None:
            reason = self._placed(record, lifted, may_preempt)
            if reason is None:
                return
            if may_preempt:
                self._hopeless[kind] = reason
        self._waits[job.name] = reason
        if isinstance(reason, OverLimit):
            return  # nothing that is kept for it would help
        reservation = self._rules.line.reserve(record, len(self._reservations), self._trial, self._placer, self._now)
        if reservation is not None:
            self._reservations[job.name] = reservation

    def _placed(self, record: JobRecord, lifted: tuple[str, ...], may_preempt: bool) -> WaitReason | None:
        """Place a job, if need be in the room that others make, or on what is reserved for after its end; or say why it waits."""
        trial = self._trial
        for name in lifted:
            trial.release(self._reservations[name].held)
        placement = self._attempt(record, trial)
        if placement is None and may_preempt:
            room = self._rules.preemption.make_room(record, trial, self._situation)
            if room is not None:
                placement = room.placement
                self.reasons |= {each.job: each.reason for each in room.concessions}
                self._hopeless.clear()
        if placement is not None:
            trial.place(placement)
        for name in lifted:
            kept = self._reservations[name]
            self._reservations[name] = Reservation(kept.placement, kept.demand, kept.starts, trial.hold(kept.placement, kept.demand))
        return None if placement is not None else self._why(record)

    def _attempt(self, record: JobRecord, trial: Transaction) -> JobPlacement | None:
        """A place for the gang in `trial`, within the limits of its queues."""
        allowed = self._allowed(record.job, trial)
        if allowed < record.job.least:
            return None
        placement = self._placer.place(record, trial)
        if placement is None or len(placement.slots) <= allowed:
            return placement
        return trial.rated(placement, placement.fewer(allowed).slots)

    def _allowed(self, job: ClusterJob, trial: Transaction) -> int:
        """The workers that the limits of the queues leave."""
        kind, each = job.demand.kind, job.demand.amount
        limits = [(name, self._limit(name, kind)) for name in trial.line(job.queue)]
        left = [(limit - trial.used(name, kind)) / each for name, limit in limits if limit is not None]
        return math.floor(min([*left, job.workers]) + 1e-9)

    def _why(self, record: JobRecord) -> WaitReason:
        """The reason for which a job could not be placed."""
        job, trial = record.job, self._trial
        if self._allowed(job, trial) < job.least:
            kind = job.demand.kind
            for name in trial.line(job.queue):
                limit, wanted = self._limit(name, kind), job.least * job.demand.amount
                if limit is not None and trial.used(name, kind) + wanted > limit:
                    return OverLimit(name, kind, limit, trial.used(name, kind), wanted)
        mark = trial.mark()
        for name, kept in self._reservations.items():
            trial.release(kept.held)
            if self._placer.place(record, trial) is not None:
                trial.rollback(mark)
                return Reserved(name, None if kept.starts is None else kept.starts - self._now)
        found = self._short(record)
        trial.rollback(mark)
        return found

    def _limit(self, queue: str, kind: str) -> int | None:
        return next(each.quota(kind).limit for each in self._trial.cluster.queues if each.name == queue)

    def _ends_before(self, record: JobRecord, kept: Reservation) -> bool:
        """True if a job that starts now will have ended when the reservation is needed."""
        if record.job.estimate is None or kept.starts is None:
            return False
        return self._now + record.job.estimate - record.ran <= kept.starts

    def _in_order(self) -> Iterator[JobRecord]:
        """Jobs of queues that have less than their share first, then by priority and by the order of the policy."""
        lines: dict[str, list[tuple[int, tuple[float, ...], JobRecord]]] = {}
        for name, record in self._trial.state.jobs.items():
            if name not in self._trial.placements:
                key = self._rules.order.key(record, self._now)
                heapq.heappush(lines.setdefault(record.job.queue, []), (-record.job.priority, key, record))
        while lines:
            queue = min(lines, key=lambda queue: (self._is_over(lines[queue][0][2].job), *lines[queue][0][:2]))
            yield heapq.heappop(lines[queue])[2]
            if not lines[queue]:
                del lines[queue]

    def _is_over(self, job: ClusterJob) -> bool:
        """True if a queue of the job's would have more than its share with it."""
        kind, wants = job.demand.kind, job.least * job.demand.amount
        return any(self._trial.used(name, kind) + wants > self._situation.fair[name, kind] for name in self._trial.line(job.queue))

    def _grow(self) -> None:
        """Give malleable jobs what nobody waits for, those with the smallest part of their workers first."""
        trial = self._trial
        small = [trial.state.jobs[name] for name, has in trial.placements.items() if len(has.slots) < trial.state.jobs[name].job.workers]
        for record in sorted(small, key=lambda each: (len(trial.placements[each.job.name].slots) / each.job.workers, each.sequence)):
            held = trial.placements[record.job.name]
            grown = self._placer.grow(record, held, trial)
            allowed = len(held.slots) + self._allowed(record.job, trial)
            if grown is not None and len(held.slots) < len(grown.slots) <= allowed:
                trial.remove(record.job.name)
                trial.place(grown)


def _shares(trial: Transaction) -> dict[tuple[str, str], float]:
    """The fair shares of all queues, by kind; without limit where there is one queue."""
    cluster = trial.cluster
    if len(cluster.queues) == 1:
        return {(cluster.queues[0].name, kind): math.inf for kind in KINDS}
    shares: dict[tuple[str, str], float] = {}
    for kind in KINDS:
        demand: dict[str, float] = {}
        for record in trial.state.jobs.values():
            if record.job.demand.kind == kind:
                demand[record.job.queue] = demand.get(record.job.queue, 0.0) + record.job.amount
        lost = sum(_lost(trial, place, kind) for place in range(len(cluster.hosts)))
        for name, share in fair_shares(cluster.queues, kind, cluster.amount(kind) - lost, demand).items():
            shares[name, kind] = share
    return shares


def _lost(trial: Transaction, place: int, kind: str) -> float:
    """The devices, or cores, of a host that are lost."""
    host = trial.cluster.hosts[place]
    if not trial.state.lost:
        return 0.0
    if kind == "cores":
        return 0.0 if trial.state.healthy(host.name) else host.cores
    return float(sum(not trial.state.healthy(host.name, (device,)) for device in range(len(host.devices))))
