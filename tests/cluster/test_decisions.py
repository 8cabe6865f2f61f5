"""Laws of every policy, on random clusters where jobs arrive and end, and hosts and devices are lost and return."""

from __future__ import annotations

from random import Random

import pytest
from clusters import CONFIGS, a_cluster, a_job, check, histories, settled
from hypothesis import given, settings
from hypothesis import strategies as st

from polyrhythm.cluster import (
    Cluster,
    ClusterDevice,
    ClusterHost,
    ClusterJob,
    ClusterState,
    EvictJob,
    GangPlacement,
    JobPending,
    JobSubmitted,
    LeastFragmentation,
    PlaceJob,
    ResizeJob,
    Transaction,
    WorkerDemand,
    WorkersObserved,
    decide,
)
from polyrhythm.cluster.placements import JobPlacement
from polyrhythm.cluster.reasons import HostGone

SEEDS = st.integers(0, 10**6)
EACH = pytest.mark.parametrize("policy", CONFIGS)


@EACH
@given(SEEDS)
@settings(max_examples=8, deadline=None)
def test_no_gang_is_partial_and_nothing_is_used_twice_after_any_action(policy: str, seed: int) -> None:
    for state, now in histories(seed, CONFIGS[policy], 12):
        actions = decide(state, now, CONFIGS[policy])
        for done in range(len(actions) + 1):
            partly = state.done(actions[:done], now)
            if done == len(actions):
                check(partly, policy)
            assert all(left.is_valid for left in partly.free)


@EACH
@given(SEEDS)
@settings(max_examples=8, deadline=None)
def test_the_same_state_gives_the_same_actions_and_stays_as_it_was(policy: str, seed: int) -> None:
    for state, now in histories(seed, CONFIGS[policy], 6):
        before = (dict(state.jobs), state.free)
        assert decide(state, now, CONFIGS[policy]) == decide(state, now, CONFIGS[policy])
        assert (dict(state.jobs), state.free) == before


@EACH
@given(SEEDS)
@settings(max_examples=8, deadline=None)
def test_every_job_runs_or_has_one_reason_to_wait(policy: str, seed: int) -> None:
    for state, now in histories(seed, CONFIGS[policy], 10):
        actions = decide(state, now, CONFIGS[policy])
        waits = [action.job for action in actions if isinstance(action, JobPending)]
        after = state.done(actions, now)
        assert sorted(waits) == sorted(job.name for job in after.waiting)
        for action in actions:
            if isinstance(action, (JobPending, EvictJob, ResizeJob)):
                assert action.reason.sentence


@EACH
@given(SEEDS)
@settings(max_examples=8, deadline=None)
def test_what_is_free_is_what_placements_leave(policy: str, seed: int) -> None:
    for state, _ in histories(seed, CONFIGS[policy], 10):
        assert ClusterState(state.cluster, state.jobs, state.lost).free == state.free


@EACH
@given(SEEDS)
@settings(max_examples=6, deadline=None)
def test_a_scheduler_that_was_killed_between_two_workers_of_a_gang_recovers(policy: str, seed: int) -> None:
    """The backend has bound some workers of one placement when the scheduler dies; what a new one observes leads to whole gangs."""
    config = CONFIGS[policy]
    for number, (state, now) in enumerate(histories(seed, config, 8)):
        actions = decide(state, now, config)
        for done, action in enumerate(actions):
            if not isinstance(action, PlaceJob):
                continue
            bound = Random(number).randrange(len(action.placement.slots) + 1)
            seen = JobPlacement(action.job, action.placement.slots[:bound])
            found = state.done(actions[:done], now).after(WorkersObserved(seen), now)
            check(settled(found, config, now)[0], policy)


@given(SEEDS)
@settings(max_examples=20, deadline=None)
def test_only_malleable_jobs_run_with_fewer_workers(seed: int) -> None:
    for state, _ in histories(seed, CONFIGS["fifo"], 10):
        for name, placement in state.running.items():
            job = state.jobs[name].job
            assert len(placement.slots) == job.workers or job.is_malleable


@EACH
@given(SEEDS)
@settings(max_examples=8, deadline=None)
def test_what_is_suspected_gets_no_new_workers_and_keeps_its_own(policy: str, seed: int) -> None:
    for state, now in histories(seed, CONFIGS[policy], 12):
        for action in decide(state, now, CONFIGS[policy]):
            if isinstance(action, PlaceJob):
                assert all((slot.host, None) not in state.suspected for slot in action.placement.slots)
            if isinstance(action, EvictJob) and isinstance(action.reason, HostGone):
                assert all(any(part[0] == host for part in state.lost) for host in action.reason.hosts)


@EACH
def test_jobs_that_fit_beside_each_other_all_start(policy: str) -> None:
    random = Random(3)
    state = ClusterState(a_cluster(random))
    state = state.after(JobSubmitted(a_job(random, "one")), 0.0)
    actions = decide(state, 0.0, CONFIGS[policy])
    assert [type(action) for action in actions] == [PlaceJob]


def test_rare_demands_count_in_fragmentation() -> None:
    """Thirty frequent demands fit on either host; a rare one needs the device of one of them, which is kept for it."""
    hosts = tuple(ClusterHost(name, 64, 10**12, (ClusterDevice(name),)) for name in "ab")
    frequent = [(WorkerDemand(devices=1, milli=100 + number), 2) for number in range(30)]
    rare = WorkerDemand(devices=1, milli=1000, models=("a",))
    state = ClusterState(Cluster("two", hosts))
    for demand, count in [*frequent, (rare, 1)]:
        for number in range(count):
            state = state.after(JobSubmitted(ClusterJob(f"waits-{demand.milli}-{number}", demand)), 0.0)
    record = state.jobs["waits-100-0"]
    placement = GangPlacement(LeastFragmentation()).prepare(state, 0.0).place(record, Transaction(state))
    assert placement is not None
    assert placement.hosts == ("b",)
