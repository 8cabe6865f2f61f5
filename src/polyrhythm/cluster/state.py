"""The state of a cluster as a value: jobs, their placements, what is free, and what is lost. Events and actions give a new one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from polyrhythm.cluster.actions import Action, EvictJob, JobPending, PlaceJob, ResizeJob
from polyrhythm.cluster.cluster import Cluster
from polyrhythm.cluster.events import ClusterEvent, JobEnded, JobSubmitted, PartLost, PartRestored, PartSuspected, WorkersObserved
from polyrhythm.cluster.hosts import Capacity
from polyrhythm.cluster.jobs import ClusterJob
from polyrhythm.cluster.placements import JobPlacement
from polyrhythm.cluster.reasons import Overtaken, Preempted, Reclaimed
from polyrhythm.errors import CompositionError, unknown


@dataclass(frozen=True, slots=True)
class PastEviction:
    """A job was stopped for another: when, for which, of which queue, in which epoch of the state, and whether for the order alone."""

    at: float
    by: str
    queue: str
    epoch: int
    for_order: bool


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job and what has happened to it: its arrival in seconds and in order, its placement since `started`, and what it had run before.

    `attained` are the device-seconds (core-seconds of a job without devices) before `started`, and `ran` the seconds.
    """

    job: ClusterJob
    arrived: float
    sequence: int
    placement: JobPlacement | None = None
    started: float = 0.0
    attained: float = 0.0
    ran: float = 0.0
    evictions: tuple[PastEviction, ...] = ()

    def attained_at(self, now: float) -> float:
        """Device-seconds, or core-seconds, until `now`."""
        return self.attained if self.placement is None else self.attained + self.amount * (now - self.started)

    def ran_at(self, now: float) -> float:
        """Seconds that it has run until `now`, scaled to all of its workers."""
        if self.placement is None:
            return self.ran
        return self.ran + (now - self.started) * len(self.placement.slots) / self.job.workers

    def ends(self, now: float) -> float | None:
        """The expected moment of its end, if it has an estimate and runs."""
        if self.placement is None or self.job.estimate is None:
            return None
        return now + max(0.0, self.job.estimate - self.ran_at(now)) * self.job.workers / len(self.placement.slots)

    @property
    def amount(self) -> float:
        """The devices, or cores, that it has now."""
        return 0.0 if self.placement is None else len(self.placement.slots) * self.job.demand.amount

    def paused(self, now: float) -> JobRecord:
        """The record with what it has attained until `now` written down, and no placement."""
        return replace(self, placement=None, attained=self.attained_at(now), ran=self.ran_at(now))


@dataclass(frozen=True, slots=True)
class ClusterState:
    """All that a decision depends on, besides the time and the policy. `jobs` are those that wait or run, in the order of arrival.

    `lost` are hosts, as (name, None), and devices, as (name, number); `suspected` ones get no new workers. `epoch`
    counts arrivals, ends, losses and returns.

    Examples:
        >>> from polyrhythm.cluster.hosts import ClusterHost
        >>> state = ClusterState(Cluster("home", (ClusterHost("laptop", cores=8),)))
        >>> [job.name for job in state.after(JobSubmitted(ClusterJob("first")), now=0.0).waiting]
        ['first']
    """

    cluster: Cluster
    jobs: Mapping[str, JobRecord] = field(default_factory=dict)
    lost: frozenset[tuple[str, int | None]] = frozenset()
    suspected: frozenset[tuple[str, int | None]] = frozenset()
    epoch: int = 0
    arrivals: int = 0
    free: tuple[Capacity, ...] = ()

    def __post_init__(self) -> None:
        if not self.free:
            object.__setattr__(self, "free", tuple(self._left(host) for host in range(len(self.cluster.hosts))))

    @property
    def waiting(self) -> tuple[ClusterJob, ...]:
        """The jobs without a placement."""
        return tuple(record.job for record in self.jobs.values() if record.placement is None)

    @property
    def running(self) -> Mapping[str, JobPlacement]:
        """The placements of all jobs that have one."""
        return {name: record.placement for name, record in self.jobs.items() if record.placement is not None}

    def record(self, name: str) -> JobRecord:
        """The record of a job; raises `UnknownNameError`."""
        if name not in self.jobs:
            raise unknown("job", name, self.jobs)
        return self.jobs[name]

    def after(self, event: ClusterEvent, now: float) -> ClusterState:
        """The state after `event`. Raises `CompositionError` for a job that is there already, or a placement that is taken."""
        match event:
            case JobSubmitted(job):
                return self._submitted(job, now)
            case JobEnded(name):
                gone = self.with_placement(name, None, now)
                return replace(gone, jobs=_frozen({k: v for k, v in gone.jobs.items() if k != name}), epoch=self.epoch + 1)
            case WorkersObserved(placement):
                return self.with_placement(placement.job, placement if placement.slots else None, now)
            case PartLost(host, device):
                self.cluster.host(host)
                return self._reckoned(self.lost | {(host, device)}, host)
            case PartRestored(host, device):
                back = replace(self, suspected=self.suspected - {(host, device)})
                return back._reckoned(self.lost - {(host, device)}, host)
            case PartSuspected(host, device):
                self.cluster.host(host)
                return replace(self, suspected=self.suspected | {(host, device)})

    def done(self, actions: Iterable[Action], now: float) -> ClusterState:
        """The state after all `actions`, or after as many of them as have been carried out."""
        state = self
        for action in actions:
            match action:
                case PlaceJob(placement) | ResizeJob(placement, _):
                    state = state.with_placement(placement.job, placement, now)
                case EvictJob(name, Preempted(by) | Overtaken(by) | Reclaimed(by, _)):
                    queue, for_order = state.record(by).job.queue, action.reason == Overtaken(by)
                    state = state.with_placement(name, None, now, PastEviction(now, by, queue, state.epoch, for_order))
                case EvictJob(name, _):
                    state = state.with_placement(name, None, now)
                case JobPending():
                    pass
        return state

    def with_placement(self, name: str, placement: JobPlacement | None, now: float, eviction: PastEviction | None = None) -> ClusterState:
        """The state in which a job has that placement, or none. Raises `CompositionError` where something would be taken twice."""
        record = self.record(name)
        free = list(self.free)
        if record.placement is not None:
            self._take(free, record, record.placement, -1)
            record = record.paused(now)
        if placement is not None:
            record = replace(record, placement=placement, started=now)
            self._take(free, record, placement, 1)
        if eviction is not None:
            record = replace(record, evictions=(*record.evictions, eviction))
        return replace(self, jobs=_frozen({**self.jobs, name: record}), free=tuple(free))

    def healthy(self, host: str, devices: Iterable[int] = ()) -> bool:
        """True if neither the host nor one of these devices is lost."""
        return (host, None) not in self.lost and not any((host, device) in self.lost for device in devices)

    def _submitted(self, job: ClusterJob, now: float) -> ClusterState:
        if job.name in self.jobs:
            raise CompositionError(f"A job {job.name!r} is there already: give the new one another name.")
        if job.queue not in (names := [queue.name for queue in self.cluster.queues]):
            raise unknown("queue", job.queue, names)
        self.cluster.from_level(job.level)
        record = JobRecord(job, now, self.arrivals)
        return replace(self, jobs=_frozen({**self.jobs, job.name: record}), epoch=self.epoch + 1, arrivals=self.arrivals + 1)

    def _take(self, free: list[Capacity], record: JobRecord, placement: JobPlacement, sign: int) -> None:
        """Take the slots of `placement` from `free`, or give them back; what is lost is neither taken nor given."""
        demand = record.job.demand
        for slot in placement.slots:
            place = self.cluster.index[slot.host]
            if (slot.host, None) in self.lost:
                continue
            devices = tuple(device for device in slot.devices if (slot.host, device) not in self.lost)
            free[place] = free[place].without(sign * demand.millicores, sign * demand.memory, devices, sign * demand.milli)
            if not free[place].is_valid:
                raise CompositionError(
                    f"The placement of {placement.job!r} takes what another job has on {slot.host!r}, devices {list(slot.devices)}: "
                    "decide again from the present state."
                )

    def _left(self, place: int) -> Capacity:
        """What is free on a host, reckoned from all placements."""
        host = self.cluster.hosts[place]
        whole = host.free()
        if (host.name, None) in self.lost:
            return Capacity(0, 0, (0,) * len(whole.devices))
        left = whole._replace(devices=tuple(0 if (host.name, d) in self.lost else part for d, part in enumerate(whole.devices)))
        for record in self.jobs.values():
            for slot in record.placement.slots if record.placement is not None else ():
                if slot.host == host.name:
                    demand = record.job.demand
                    devices = tuple(device for device in slot.devices if (host.name, device) not in self.lost)
                    left = left.without(demand.millicores, demand.memory, devices, demand.milli)
        return left

    def _reckoned(self, lost: frozenset[tuple[str, int | None]], host: str) -> ClusterState:
        """The state with other losses on `host`."""
        place = self.cluster.index[host]
        changed = replace(self, lost=lost, epoch=self.epoch + 1)
        return replace(changed, free=(*self.free[:place], changed._left(place), *self.free[place + 1 :]))


def _frozen(jobs: dict[str, JobRecord]) -> Mapping[str, JobRecord]:
    return MappingProxyType(jobs)
