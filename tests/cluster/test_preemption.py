"""Preemption and reclaim: who makes way for whom, and that it ends. The four loops are of issues of Kueue, in the numbers of GPUs here."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from clusters import CONFIGS, a_cluster, a_job, check, settled
from hypothesis import given, settings
from hypothesis import strategies as st

from polyrhythm.cluster import (
    Action,
    Cluster,
    ClusterDevice,
    ClusterHost,
    ClusterJob,
    ClusterState,
    EvictJob,
    FirstIn,
    JobEnded,
    JobSubmitted,
    PlaceJob,
    Preemption,
    Queue,
    Quota,
    ResizeJob,
    SchedulerConfig,
    WorkerDemand,
    decide,
)
from polyrhythm.cluster.reasons import MadeRoom, Overtaken, Preempted, Reclaimed

GPU = WorkerDemand(devices=1)
AT_ONCE = SchedulerConfig(FirstIn(), preemption=Preemption(cooldown=0.0))


def gpus(count: int, *queues: Queue) -> ClusterState:
    host = ClusterHost("a", 4 * count, 10**12, (ClusterDevice(),) * count)
    return ClusterState(Cluster("one", (host,), queues=queues or (Queue("default"),)))


def job(name: str, workers: int = 1, queue: str = "default", priority: int = 0, least: int | None = None) -> ClusterJob:
    return ClusterJob(name, GPU, workers, least, queue, priority)


def submitted(state: ClusterState, *jobs: ClusterJob, now: float = 0.0, config: SchedulerConfig = AT_ONCE) -> ClusterState:
    """The state when each job has arrived and all is settled."""
    for each in jobs:
        state, _ = settled(state.after(JobSubmitted(each), now), config, now)
    return state


def evictions(state: ClusterState, *jobs: ClusterJob, now: float = 10.0, config: SchedulerConfig = AT_ONCE) -> list[tuple[str, str]]:
    """Who is stopped for whom when these arrive one after another."""
    found: list[tuple[str, str]] = []
    for each in jobs:
        state, done = settled(state.after(JobSubmitted(each), now), config, now)
        found += [(action.job, action.reason.by) for action in done if isinstance(action, EvictJob)]
    return found


def test_a_higher_priority_stops_the_last_of_the_lowest_and_only_as_many_as_needed() -> None:
    state = submitted(gpus(4), job("one"), job("two"), job("high", priority=5), job("three"))
    assert evictions(state, job("urgent", priority=9)) == [("three", "urgent")]
    assert evictions(state, job("wide", 3, priority=9)) == [("one", "wide"), ("two", "wide"), ("three", "wide")]
    assert evictions(state, job("equal")) == []


def test_what_turns_out_not_to_be_needed_is_given_back() -> None:
    """The last to come is on the host where nothing else can leave; the earlier one, alone on its host, suffices."""
    hosts = tuple(ClusterHost(name, 8, 10**12, (ClusterDevice(),) * 2) for name in "ab")
    state = ClusterState(Cluster("two", hosts))
    fixed = ClusterJob("fixed", GPU, preemptible=False)
    pair = ClusterJob("pair", WorkerDemand(devices=2))
    state = submitted(state, pair, fixed, job("last"))
    assert evictions(state, ClusterJob("urgent", WorkerDemand(devices=2), priority=9)) == [("pair", "urgent")]


def test_malleable_jobs_shrink_before_any_job_stops() -> None:
    state = submitted(gpus(4), job("elastic", 3, least=1), job("rigid"))
    actions = decide(state.after(JobSubmitted(job("new", 2)), 10.0), 10.0, AT_ONCE)
    assert [type(action) for action in actions] == [ResizeJob, PlaceJob]
    assert actions[0].reason == MadeRoom("new")
    assert len(actions[0].placement.slots) == 1


def test_a_malleable_job_grows_when_nobody_waits() -> None:
    state = submitted(gpus(4), job("elastic", 4, least=1), job("new", 2))
    assert len(state.running["elastic"].slots) == 2
    state, _ = settled(state.after(JobEnded("new"), 20.0), AT_ONCE, 20.0)
    assert len(state.running["elastic"].slots) == 4


def test_a_queue_takes_back_its_share_and_no_more() -> None:
    queues = (Queue("mine", devices=Quota(deserved=4)), Queue("yours", devices=Quota(deserved=4)))
    state = submitted(gpus(8, *queues), *(job(f"y{number}", queue="yours") for number in range(8)))
    found = evictions(state, *(job(f"m{number}", queue="mine") for number in range(6)))
    assert found == [(f"y{7 - number}", f"m{number}") for number in range(4)]


def test_a_queue_inside_of_another_takes_back_from_its_siblings_first() -> None:
    """Two teams share what their group has; the other group has only its own share, and keeps it."""
    queues = (
        Queue("group", devices=Quota(deserved=4)),
        Queue("a", "group", devices=Quota(deserved=2)),
        Queue("b", "group", devices=Quota(deserved=2)),
        Queue("other", devices=Quota(deserved=4)),
    )
    state = submitted(gpus(8, *queues), *(job(f"o{n}", queue="other") for n in range(4)), *(job(f"b{n}", queue="b") for n in range(4)))
    assert evictions(state, job("a0", queue="a"), job("a1", queue="a"), job("a2", queue="a")) == [("b3", "a0"), ("b2", "a1")]


def test_a_job_that_may_not_be_stopped_is_not() -> None:
    state = submitted(gpus(1), ClusterJob("fixed", GPU, preemptible=False))
    assert evictions(state, job("urgent", priority=9)) == []


def test_a_job_runs_for_its_least_time_before_it_is_stopped() -> None:
    rules = SchedulerConfig(FirstIn(), preemption=Preemption(min_runtime=60.0))
    state = submitted(gpus(1), job("low"), config=rules)
    assert evictions(state, job("urgent", priority=9), now=30.0, config=rules) == []
    assert evictions(state, job("urgent", priority=9), now=60.0, config=rules) == [("low", "urgent")]


def test_who_was_stopped_does_not_take_back_at_once_from_that_queue() -> None:
    queues = (Queue("mine", devices=Quota(deserved=1)), Queue("yours", devices=Quota(deserved=1)))
    calm = SchedulerConfig(FirstIn(), preemption=Preemption(cooldown=100.0))
    state = submitted(gpus(2, *queues), job("y0", queue="yours"), job("y1", queue="yours"), config=calm)
    state = submitted(state, job("m0", queue="mine"), now=10.0, config=calm)
    assert state.jobs["y1"].evictions[0].queue == "mine"


def test_least_attained_service_stops_who_has_attained_more() -> None:
    config = CONFIGS["las"]
    state = submitted(gpus(1), job("old"), config=config)
    evict, place, *_ = decide(state.after(JobSubmitted(job("new")), 60.0), 60.0, config)
    assert evict == EvictJob("old", Overtaken("new"))
    assert place.job == "new"


def test_a_preempted_job_does_not_get_the_place_that_was_made_by_it() -> None:
    """Kueue #2821: a job above its quota preempts one of low priority, which is admitted in front of it, again and again."""
    queues = (Queue("a", devices=Quota(deserved=2)), Queue("b", devices=Quota(deserved=2)))
    state = submitted(gpus(4, *queues), job("a-base", 2, "a", priority=100), job("b-low", 2, "b", priority=-5))
    assert evictions(state, job("a-high", 2, "a", priority=100)) == []  # above its share, it stops nobody of another queue


def test_a_queue_without_a_share_does_not_return_and_leave_again() -> None:
    """Kueue #3779: what a queue without any share has borrowed is taken, admitted again, and taken again."""
    queues = (Queue("a", devices=Quota(deserved=3)), Queue("b", devices=Quota(deserved=3)), Queue("spare", devices=Quota(weight=0)))
    state = submitted(gpus(6, *queues), job("a1", 5, "a"), job("s1", 1, "spare"))
    state, done = settled(state.after(JobSubmitted(job("a2", 1, "a")), 10.0), AT_ONCE, 10.0)
    assert len([action for action in done if isinstance(action, EvictJob)]) <= 1
    check(state)


def test_gangs_that_cannot_have_their_share_do_not_flap() -> None:
    """Kueue #7101: six, five, four and three workers of a queue with nothing wait beside four pairs of another."""
    queues = (Queue("p1"), Queue("p2"))
    state = submitted(gpus(8, *queues), *(job(f"pair-{number}", 2, "p1") for number in range(4)))
    found = evictions(state, *(job(f"gang-{size}", size, "p2") for size in (6, 5, 4, 3)))
    assert found == [("pair-3", "gang-4"), ("pair-2", "gang-4")] or found == [("pair-2", "gang-4"), ("pair-3", "gang-4")]


def test_giving_back_does_not_make_another_eviction_illegal() -> None:
    """Kueue #14543: victims of the claimant's own queue lower its share, more victims become legal, and then its own are given back."""
    queues = (Queue("a", devices=Quota(deserved=3)), Queue("b", devices=Quota(deserved=3)))
    state = submitted(gpus(6, *queues), job("a-low", 2, "a", priority=-1), job("b1", 2, "b"), job("b2", 2, "b"))
    state, done = settled(state.after(JobSubmitted(job("a-high", 3, "a", priority=5)), 10.0), AT_ONCE, 10.0)
    reclaimed = [action for action in done if isinstance(action, EvictJob) and isinstance(action.reason, Reclaimed)]
    used = sum(len(placement.slots) for name, placement in state.running.items() if name.startswith("b"))
    assert used >= 3 or not reclaimed


def ends(seed: int, config: SchedulerConfig, jobs: int) -> None:
    """After the last arrival evictions end, and no two jobs stop each other by priority or share; time goes on between decisions."""
    random = Random(seed)
    cluster = a_cluster(random)
    state, now = ClusterState(cluster), 0.0
    names = [queue.name for queue in cluster.queues if queue.name != "research"]
    for number in range(jobs):
        state = state.after(JobSubmitted(a_job(random, f"job-{number}", names)), now)
        if random.random() < 0.5:
            state = state.done(decide(state, now, config), now)
            check(state)
    done: list[Action] = []
    for _ in range(12):
        state, more = settled(state, config, now, most=3 * jobs)
        done += more
        now += random.choice((0.0, 1.0, 400.0))
    stopped: Counter[tuple[str, str]] = Counter()
    for action in done:
        match action:
            case EvictJob(name, Preempted(by) | Reclaimed(by, _)):
                stopped[name, by] += 1
    assert all(count == 1 for count in stopped.values())
    assert not any((by, name) in stopped for name, by in stopped)


@pytest.mark.parametrize("policy", ["fifo", "las", "srtf", "frag"])
@given(st.integers(0, 10**9))
@settings(max_examples=5, deadline=None)
def test_evictions_end_after_the_last_arrival(policy: str, seed: int) -> None:
    config = CONFIGS[policy]
    ends(seed, SchedulerConfig(config.order, config.placement, config.line, Preemption(cooldown=0.0)), 12)


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_evictions_end_in_ten_thousand_adversarial_cases(part: int) -> None:
    for case in range(1000):
        config = list(CONFIGS.values())[case % len(CONFIGS)]
        ends(part * 1000 + case, SchedulerConfig(config.order, config.placement, config.line, Preemption(cooldown=0.0)), 8 + case % 8)
