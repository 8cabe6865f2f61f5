"""Joint schedules by predicted times: nothing is taken twice, the searches agree with trying everything, and what waits says why."""

from __future__ import annotations

from itertools import permutations, product
from random import Random

import pytest

from polyrhythm.cluster import (
    Cluster,
    ClusterHost,
    ClusterJob,
    ClusterState,
    DomainLevel,
    FirstIn,
    JobEnded,
    JobPending,
    JobPlacement,
    JobSubmitted,
    NoPreemption,
    PartLost,
    PlaceJob,
    RingDevices,
    SchedulerConfig,
    Transaction,
    WorkerDemand,
    WorkerSlot,
    WorkersObserved,
    decide,
)
from polyrhythm.cluster.predicted import (
    ExhaustiveSearch,
    Forecast,
    HostKinds,
    JointProblem,
    JointSearch,
    PredictedPlacement,
    StepForecaster,
    joint_problem,
)
from polyrhythm.cluster.reasons import NotChosen
from polyrhythm.cluster.simulation import PlacementSpeed, TracedJob, World, simulate_cluster

POLICY = SchedulerConfig(FirstIn(), PredictedPlacement(StepForecaster()), preemption=NoPreemption())


class ByMachine:
    """A job takes ten times as long on a slow host, and workers divide it."""

    def forecast(self, job: ClusterJob, slots: tuple[WorkerSlot, ...], cluster: Cluster) -> Forecast | None:
        """The time by the slowest host."""
        slowest = max(10.0 if cluster.host(slot.host).machine == "raspberry-pi-4" else 1.0 for slot in slots)
        return Forecast((job.estimate or 1.0) * slowest / len(slots), "allreduce")


def site(fast: int, slow: int) -> Cluster:
    hosts = [ClusterHost(f"fast-{n}", cores=2, machine="laptop", labels=(("rack", "a"),)) for n in range(fast)]
    hosts += [ClusterHost(f"slow-{n}", cores=2, machine="raspberry-pi-4", labels=(("rack", "b"),)) for n in range(slow)]
    return Cluster("site", tuple(hosts), (DomainLevel("rack", 1e8),))


def waiting(cluster: Cluster, seed: int, count: int) -> ClusterState:
    draw, state = Random(seed), ClusterState(cluster)
    for number in range(count):
        workers = draw.choice([1, 2, 4])
        job = ClusterJob(
            f"job-{number}",
            WorkerDemand(cores=draw.choice([1, 2])),
            workers,
            draw.randint(1, workers),
            estimate=draw.uniform(10, 200),
            step_bytes=draw.choice([0.0, 1e7, 1e8]),
        )
        state = state.after(JobSubmitted(job), now=0.0)
    return state


def problem_of(state: ClusterState, forecaster: object = None) -> JointProblem:
    kinds = HostKinds(state.cluster, RingDevices())
    return joint_problem(state, 0.0, forecaster or StepForecaster(), kinds, Transaction(state), 8)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(4))
def test_the_exhaustive_search_finds_what_trying_everything_finds(seed: int) -> None:
    problem = problem_of(waiting(site(1, 1), seed, 3))
    ways = [problem.ways[record.job.name] for record in problem.records]
    every = (
        problem.scheduled([(number, chosen[number]) for number in order])
        for order in permutations(range(len(ways)))
        for chosen in product(*ways)
    )
    best = min(schedule.total for schedule in every if schedule is not None)
    found = ExhaustiveSearch().best(problem)
    assert found is not None
    assert found.is_optimal
    assert found.total == pytest.approx(best)


@pytest.mark.parametrize("seed", [11, 12, 13])
@pytest.mark.parametrize(("fast", "slow", "jobs"), [(2, 1, 4), (2, 2, 5), (1, 3, 5)])
def test_the_search_is_within_a_hundredth_of_the_exhaustive_one(fast: int, slow: int, jobs: int, seed: int) -> None:
    problem = problem_of(waiting(site(fast, slow), seed, jobs))
    found = JointSearch().best(problem)
    assert found is not None
    exact = ExhaustiveSearch().best(problem, found)
    assert exact is not None
    assert exact.total <= found.total <= 1.01 * exact.total


@pytest.mark.parametrize("seed", range(6))
def test_a_schedule_leaves_its_trial_as_it_was_and_takes_nothing_twice(seed: int) -> None:
    state = waiting(site(3, 3), seed, 6)
    problem = problem_of(state)
    schedule = JointSearch().best(problem)
    assert schedule is not None
    assert (problem.trial.free, problem.trial.placements) == (list(state.free), dict(state.running))
    for start in schedule.starts:
        together = [each for each in schedule.starts if each.starts <= start.starts < each.ends]
        trial = Transaction(state)
        for each in together:
            trial.place(each.placement)  # raises where something is taken twice


@pytest.mark.parametrize("seed", range(2))
def test_all_jobs_of_a_trace_end(seed: int) -> None:
    jobs = [TracedJob(5.0 * number, job, job.estimate or 1.0) for number, job in enumerate(waiting(site(2, 2), seed, 8).waiting)]
    found = simulate_cluster(site(2, 2), jobs, POLICY, World(PlacementSpeed()))
    assert len(found.jobs) == 8


def test_a_job_waits_for_a_fast_host_where_that_is_sooner() -> None:
    state = ClusterState(site(1, 1))
    for name, estimate in (("short", 10.0), ("long", 60.0)):
        state = state.after(JobSubmitted(ClusterJob(name, WorkerDemand(cores=2), estimate=estimate)), now=0.0)
    actions = decide(state, 0.0, SchedulerConfig(FirstIn(), PredictedPlacement(ByMachine()), preemption=NoPreemption()))
    place, pending = actions
    assert isinstance(place, PlaceJob)
    assert (place.placement.job, place.placement.hosts, place.placement.system) == ("short", ("fast-0",), "allreduce")
    assert pending == JobPending("long", NotChosen("has room, and the policy keeps it for a better choice"))


def test_two_jobs_share_hosts_where_one_would_take_all() -> None:
    state = ClusterState(site(4, 0))
    for name in ("one", "two"):
        state = state.after(JobSubmitted(ClusterJob(name, WorkerDemand(cores=2), 4, 1, estimate=100.0, step_bytes=8e7)), now=0.0)
    places = [action.placement for action in decide(state, 0.0, POLICY) if isinstance(action, PlaceJob)]
    assert sorted(len(placement.slots) for placement in places) == [2, 2]


def test_lost_hosts_are_in_no_way() -> None:
    state = waiting(site(2, 1), 3, 2).after(PartLost("fast-0", None), now=0.0)
    schedule = JointSearch().best(problem_of(state))
    assert schedule is not None
    assert all("fast-0" not in start.placement.hosts for start in schedule.starts)


def test_a_required_domain_has_all_workers() -> None:
    state = ClusterState(site(2, 0))
    for name in ("one", "two"):
        state = state.after(JobSubmitted(ClusterJob(name, WorkerDemand(cores=1), estimate=50.0)), now=0.0)
        state = state.after(WorkersObserved(JobPlacement(name, (WorkerSlot("fast-0" if name == "one" else "fast-1"),), seconds=50.0)), 0.0)
    job = ClusterJob("pair", WorkerDemand(cores=1), 2, estimate=10.0, level="host", mode="required")
    state = state.after(JobSubmitted(job), now=0.0)
    assert not [action for action in decide(state, 0.0, POLICY) if isinstance(action, PlaceJob)]
    state = state.after(JobEnded("two"), now=60.0)
    (place,) = [action for action in decide(state, 60.0, POLICY) if isinstance(action, PlaceJob)]
    assert place.placement.hosts == ("fast-1",)


def test_a_job_does_not_wait_for_ever_for_one_that_is_late() -> None:
    state = ClusterState(site(1, 1))
    for name in ("late", "next"):
        state = state.after(JobSubmitted(ClusterJob(name, WorkerDemand(cores=2), estimate=10.0)), now=0.0)
    config = SchedulerConfig(FirstIn(), PredictedPlacement(ByMachine()), preemption=NoPreemption())
    state = state.done(decide(state, 0.0, config), 0.0)
    assert list(state.running) == ["late"]
    assert not [action for action in decide(state, 12.0, config) if isinstance(action, PlaceJob)]
    (place,) = [action for action in decide(state, 200.0, config) if isinstance(action, PlaceJob)]
    assert place.placement.hosts == ("slow-0",)
