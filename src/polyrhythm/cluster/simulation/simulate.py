"""Virtual time of a cluster: a heap of events, and after each of them the decision."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from polyrhythm.cluster.actions import Action, EvictJob, JobPending, PlaceJob, ResizeJob
from polyrhythm.cluster.cluster import Cluster
from polyrhythm.cluster.decide import SchedulerConfig, decide
from polyrhythm.cluster.events import ClusterEvent, JobEnded, JobSubmitted, PartLost, PartRestored
from polyrhythm.cluster.placements import JobPlacement
from polyrhythm.cluster.reasons import HostGone, WaitReason
from polyrhythm.cluster.simulation.costs import ChangeCosts
from polyrhythm.cluster.simulation.failures import FailureModel, NoFailures
from polyrhythm.cluster.simulation.results import ClusterRun, JobRun, JobSegment
from polyrhythm.cluster.simulation.speeds import PlacementSpeed, SpeedModel
from polyrhythm.cluster.simulation.traced_job import TracedJob
from polyrhythm.cluster.state import ClusterState
from polyrhythm.core.settings import checked


@dataclass(frozen=True, slots=True)
@checked
class World:
    """What happens besides the jobs: how fast placements are, what changes cost, and which hosts fail."""

    speeds: SpeedModel = PlacementSpeed()  # noqa: RUF009 (a frozen value)
    costs: ChangeCosts = ChangeCosts()  # noqa: RUF009 (a frozen value)
    failures: FailureModel = NoFailures()  # noqa: RUF009 (a frozen value)


def simulate_cluster(
    cluster: Cluster, trace: Sequence[TracedJob], config: SchedulerConfig, world: World | None = None, policy: str = "", seed: int = 0
) -> ClusterRun:
    """Run the jobs of `trace` on `cluster` under the policy `config`, in virtual time; the same arguments give the same run.

    Examples:
        >>> from polyrhythm.cluster import ClusterHost, ClusterJob, WorkerDemand
        >>> home = Cluster("home", (ClusterHost("laptop", cores=8),))
        >>> jobs = [TracedJob(0.0, ClusterJob(name, WorkerDemand(cores=6)), seconds=60.0) for name in ("first", "second")]
        >>> [job.completion for job in simulate_cluster(home, jobs, SchedulerConfig()).jobs]
        [60.0, 120.0]
    """
    return _Simulation(cluster, trace, config, world or World(), seed).run(policy)


@dataclass(slots=True)
class _Progress:
    """What a job has done: seconds of the trace, its speed since a moment, and its history."""

    traced: TracedJob
    done: float = 0.0
    speed: float = 0.0
    since: float = 0.0
    ran: float = 0.0
    begun: float = 0.0
    started: float | None = None
    version: int = 0
    stops: int = 0
    resizes: int = 0
    kept: float = 0.0

    def advance(self, now: float, interval: float) -> None:
        """Count what was done until `now`, and what of it the checkpoint that was written last has."""
        worked = max(0.0, now - self.since)
        written = (self.ran + worked) // interval * interval  # the running time of the last checkpoint
        if written > self.ran:
            self.kept = self.done + (written - self.ran) * self.speed
        self.done += worked * self.speed
        self.ran += worked
        self.since = max(now, self.since)

    def ends(self) -> float:
        """The moment at which it completes at this speed."""
        return self.since + max(0.0, self.traced.seconds - self.done) / self.speed


class _Simulation:
    """The events, the state and the progress of each job."""

    def __init__(self, cluster: Cluster, trace: Sequence[TracedJob], config: SchedulerConfig, world: World, seed: int) -> None:
        self._cluster = cluster
        self._config = config
        self._world = world
        self._state = ClusterState(cluster)
        self._jobs = {traced.job.name: _Progress(traced) for traced in trace}
        self._heap: list[tuple[float, int, ClusterEvent | None, int]] = []
        self._order = count()
        self._failing: Iterator[tuple[float, str, float]] = world.failures.times(cluster, seed)
        self._left = len(trace)
        self._finished: list[JobRun] = []
        self._segments: list[JobSegment] = []
        self._usage: list[tuple[float, float, float, int]] = []
        self._waits: dict[str, WaitReason] = {}
        self._failures = self._decisions = 0
        self._tick = -1.0
        for traced in trace:
            self._push(traced.submitted, JobSubmitted(traced.job))
        self._next_failure()

    def run(self, policy: str) -> ClusterRun:
        """All events in their order, until every job has ended or none can."""
        while self._heap and self._left:
            now = self._heap[0][0]
            happened = False
            while self._heap and self._heap[0][0] <= now + 1e-9:
                _, _, event, version = heapq.heappop(self._heap)
                happened = self._happen(event, version, now) or happened
            if happened:
                self._decide(now)
                if self._is_stuck():
                    break
        jobs = sorted(self._finished, key=lambda job: (job.submitted, job.name))
        unfinished = dict(self._waits)
        return ClusterRun(policy, tuple(jobs), tuple(self._segments), tuple(self._usage), unfinished, self._failures, self._decisions)

    def _is_stuck(self) -> bool:
        """True if nothing runs or arrives any more, and all hosts are there: what waits now waits for ever."""
        arrived = len(self._finished) + len(self._state.jobs)
        return not self._state.running and not self._state.lost and arrived == len(self._jobs)

    def _push(self, time: float, event: ClusterEvent | None, version: int = 0) -> None:
        heapq.heappush(self._heap, (time, next(self._order), event, version))

    def _next_failure(self) -> None:
        for time, host, back in self._failing:
            self._push(time, PartLost(host))
            self._push(back, PartRestored(host))
            return

    def _happen(self, event: ClusterEvent | None, version: int, now: float) -> bool:
        """Take in an event; False for an end that was overtaken by a change of the job's placement."""
        match event:
            case JobEnded(name):
                if self._jobs[name].version != version:
                    return False
                self._end(name, now)
            case PartLost():
                self._failures += 1
                self._next_failure()
        if event is not None:
            self._state = self._state.after(event, now)
        return True

    def _decide(self, now: float) -> None:
        actions = decide(self._state, now, self._config)
        self._decisions += 1
        before = self._state
        self._state = self._state.done(actions, now)
        self._waits = {action.job: action.reason for action in actions if isinstance(action, JobPending)}
        for action in actions:
            self._carry_out(action, before, now)
        self._note_usage(now)
        if self._waits:
            changes = [self._config.order.changes(self._state.jobs[name], now) for name in self._state.running]
            tick = min((change for change in changes if change is not None and change > now), default=None)
            if tick is not None and not now < self._tick <= tick:
                self._tick = tick
                self._push(tick, None)

    def _carry_out(self, action: Action, before: ClusterState, now: float) -> None:
        match action:
            case PlaceJob(placement):
                progress = self._jobs[placement.job]
                first = progress.started is None
                progress.started = now if progress.started is None else progress.started
                self._resume(placement, now, 0.0 if first else self._world.costs.restart)
            case ResizeJob(placement, _):
                self._pause(placement.job, before, now)
                self._jobs[placement.job].resizes += 1
                self._resume(placement, now, self._world.costs.resize)
            case EvictJob(name, reason):
                self._pause(name, before, now)
                progress = self._jobs[name]
                progress.stops += 1
                progress.version += 1
                if isinstance(reason, HostGone):
                    progress.done = progress.kept  # what came after the last checkpoint is lost
                progress.kept = progress.done

    def _pause(self, name: str, before: ClusterState, now: float) -> None:
        """Count a running job's progress, and close its segment."""
        progress = self._jobs[name]
        progress.advance(now, self._world.costs.checkpoint)
        placement = before.jobs[name].placement
        if placement is not None and now > progress.begun:
            self._segments.append(JobSegment(name, progress.begun, now, placement))
        progress.begun = now

    def _resume(self, placement: JobPlacement, now: float, cost: float) -> None:
        """Let a job run on, after `cost` seconds, at the speed of its placement."""
        progress = self._jobs[placement.job]
        progress.begun = now
        progress.since = now + cost
        progress.speed = self._world.speeds.speed(progress.traced.job, placement, self._cluster)
        progress.version += 1
        self._push(progress.ends(), JobEnded(placement.job), progress.version)

    def _end(self, name: str, now: float) -> None:
        self._pause(name, self._state, now)
        progress = self._jobs[name]
        started = now if progress.started is None else progress.started
        traced = progress.traced
        self._finished.append(JobRun(name, traced.job.amount, traced.submitted, started, now, progress.stops, progress.resizes))
        self._left -= 1

    def _note_usage(self, now: float) -> None:
        devices = cores = 0.0
        for name, placement in self._state.running.items():
            demand = self._state.jobs[name].job.demand
            devices += len(placement.slots) * demand.devices * demand.milli / 1000
            cores += len(placement.slots) * demand.cores
        self._usage.append((now, devices, cores, len(self._waits)))
