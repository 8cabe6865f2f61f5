"""A plan of a cluster: which of the jobs that wait runs where and when, with which system, at what cost, and what a lost host changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from polyrhythm.cluster import (
    Cluster,
    ClusterJob,
    ClusterState,
    GangPlacement,
    JobPlacement,
    JobSubmitted,
    NoPreemption,
    PartLost,
    RingDevices,
    Transaction,
)
from polyrhythm.cluster.predicted import (
    ExhaustiveSearch,
    Forecaster,
    HostKinds,
    JointSchedule,
    JointSearch,
    PlannedStart,
    joint_problem,
)
from polyrhythm.cluster.shortage import shortage
from polyrhythm.cluster.simulation import TracedJob, World, simulate_cluster
from polyrhythm.tools.scheduling.policies import PREDICTED, policy

EXACT_JOBS, EXACT_HOSTS = 6, 8
"""Up to so many jobs and hosts all schedules are tried; beyond, one is improved step by step."""
HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class JobPlan:
    """One job: where and how it runs, when it starts and ends in seconds from now, and its cost."""

    job: str
    placement: JobPlacement
    starts: float
    ends: float
    cost: float


@dataclass(frozen=True, slots=True)
class HostLoss:
    """What the loss of `host` at the beginning would change: jobs that run elsewhere, jobs that cannot run, and the mean
    completion, None where no job can run then."""

    host: str
    mean_completion: float | None
    moved: tuple[str, ...]
    stranded: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """The plan for all jobs; `refused` are those that fit nowhere or do not reach their target, each with a sentence.

    `mean_completions` has the mean seconds to an end under each policy, by the same forecasts.
    """

    jobs: tuple[JobPlan, ...]
    refused: dict[str, str]
    losses: tuple[HostLoss, ...]
    mean_completions: dict[str, float]
    is_optimal: bool

    @property
    def mean_completion(self) -> float:
        """The mean seconds until a job ends."""
        return _mean([job.ends for job in self.jobs])

    @property
    def cost(self) -> float:
        """The cost of all jobs."""
        return sum(job.cost for job in self.jobs)


def plan_cluster(cluster: Cluster, jobs: Sequence[ClusterJob], forecaster: Forecaster) -> ClusterPlan:
    """The plan with the least mean completion: all jobs wait now, none is stopped once it runs.

    Of up to six jobs on eight hosts every schedule is tried, of more a `JointSearch` improves one.
    """
    state = ClusterState(cluster)
    for job in jobs:
        state = state.after(JobSubmitted(job), now=0.0)
    schedule = _schedule(state, forecaster)
    starts = () if schedule is None else schedule.starts
    plans = tuple(_planned(cluster, start) for start in starts)
    refused = {job.name: _why(state, job) for job in jobs if job.name not in {start.job for start in starts}}
    used = dict.fromkeys(host for plan in plans for host in plan.placement.hosts)
    losses = tuple(_loss(state, host, starts, forecaster) for host in used)
    others = _others(cluster, [job for job in jobs if job.name not in refused], forecaster) if plans else {}
    return ClusterPlan(plans, refused, losses, others, schedule is not None and schedule.is_optimal)


def _schedule(state: ClusterState, forecaster: Forecaster) -> JointSchedule | None:
    kinds, trial = HostKinds(state.cluster, RingDevices()), Transaction(state)
    problem = joint_problem(state, 0.0, forecaster, kinds, trial, len(state.jobs))
    if not problem.records:
        return None
    found = JointSearch().best(problem)
    small = len(problem.records) <= EXACT_JOBS and len(state.cluster.hosts) <= EXACT_HOSTS
    return ExhaustiveSearch().best(problem, found) if small else found


def _planned(cluster: Cluster, start: PlannedStart) -> JobPlan:
    price = sum(cluster.host(host).price_per_hour for host in start.placement.hosts)
    return JobPlan(start.job, start.placement, start.starts, start.ends, price * (start.ends - start.starts) / HOUR)


def _why(state: ClusterState, job: ClusterJob) -> str:
    """Why a job is not in the schedule: it fits nowhere, or is not forecast to reach its target anywhere."""
    trial = Transaction(state)
    if GangPlacement().prepare(state, 0.0).place(state.record(job.name), trial) is None:
        return shortage(state.record(job.name), trial).sentence
    return "has no forecast: it does not reach its target with any of its systems, or has none; give to = another target, or other systems"


def _loss(state: ClusterState, host: str, starts: Sequence[PlannedStart], forecaster: Forecaster) -> HostLoss:
    left = _schedule(state.after(PartLost(host, None), now=0.0), forecaster)
    now = {} if left is None else {start.job: start for start in left.starts}
    moved = tuple(each.job for each in starts if each.job in now and now[each.job].placement.slots != each.placement.slots)
    stranded = tuple(each.job for each in starts if each.job not in now)
    return HostLoss(host, _mean([start.ends for start in now.values()]) if now else None, moved, stranded)


@dataclass(frozen=True, slots=True)
class ForecastSpeed:
    """A `SpeedModel` by forecasts, of the fastest system on each placement."""

    forecaster: Forecaster

    def speed(self, job: ClusterJob, placement: JobPlacement, cluster: Cluster) -> float:
        """One over the seconds; so slow that it never ends where nothing is forecast."""
        found = self.forecaster.forecast(job, placement.slots, cluster)
        return 1e-12 if found is None else 1 / found.seconds


def _others(cluster: Cluster, jobs: Sequence[ClusterJob], forecaster: Forecaster) -> dict[str, float]:
    """The mean completion under each policy, all jobs arriving now, and none stopped for another."""
    trace = [TracedJob(0.0, job, seconds=1.0) for job in jobs]
    world = World(ForecastSpeed(forecaster))
    found = {}
    for name in (PREDICTED, "binpack", "topology", "las"):
        config = replace(policy(name, lambda: forecaster), preemption=NoPreemption())
        found[name] = simulate_cluster(cluster, trace, config, world).mean_completion
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
