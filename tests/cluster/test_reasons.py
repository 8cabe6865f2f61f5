"""The reasons for which jobs wait: they name what is short, and nothing more."""

from __future__ import annotations

import pytest
from clusters import histories
from hypothesis import given, settings
from hypothesis import strategies as st

from polyrhythm.cluster import (
    Backfill,
    Cluster,
    ClusterDevice,
    ClusterHost,
    ClusterJob,
    ClusterState,
    FirstIn,
    JobPending,
    JobSubmitted,
    NoPreemption,
    Queue,
    Quota,
    SchedulerConfig,
    StrictLine,
    Transaction,
    WorkerDemand,
    decide,
)
from polyrhythm.cluster.gang import GangPlacement
from polyrhythm.cluster.hosts import Capacity
from polyrhythm.cluster.reasons import InLine, OverLimit, Reserved, Shortage, TooLarge, WaitReason
from polyrhythm.cluster.shortage import without
from polyrhythm.cluster.state import JobRecord
from polyrhythm.errors import PolyrhythmError

CALM = SchedulerConfig(FirstIn(), line=Backfill(0), preemption=NoPreemption())
GPU = ClusterDevice("a100", 40 * 10**9)


def waits(cluster: Cluster, *jobs: ClusterJob, config: SchedulerConfig = CALM) -> dict[str, WaitReason]:
    state = ClusterState(cluster)
    for job in jobs:
        state = state.after(JobSubmitted(job), 0.0)
    return {action.job: action.reason for action in decide(state, 0.0, config) if isinstance(action, JobPending)}


@given(st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_with_more_of_what_is_named_the_job_fits_and_with_less_of_it_it_does_not(seed: int) -> None:
    for state, now in histories(seed, CALM, 14):
        actions = decide(state, now, CALM)
        after = state.done(actions, now)
        for action in actions:
            if not isinstance(action, JobPending) or not isinstance(action.reason, Shortage):
                continue
            record = after.jobs[action.job]
            assert fits(after, record, action.reason.lacking), action.reason
            for one in action.reason.lacking if len(action.reason.lacking) > 1 else ():
                assert not fits(after, record, (one,)), action.reason


def fits(state: ClusterState, record: JobRecord, relaxed: tuple[str, ...]) -> bool:
    """True if the least of a job's workers fit when they need nothing of `relaxed`."""
    from dataclasses import replace

    demand = without(record.job.demand, relaxed)
    if demand is None:
        return True
    job = replace(record.job, name="relaxed", demand=demand, workers=record.job.least, min_workers=None)
    asked = replace(state, jobs={**state.jobs, "relaxed": replace(record, job=job)})
    return GangPlacement().prepare(asked, 0.0).place(asked.jobs["relaxed"], Transaction(asked)) is not None


def test_two_halves_are_no_whole_device() -> None:
    cluster = Cluster("one", (ClusterHost("a", 32, 10**11, (GPU, GPU)),))
    half = WorkerDemand(devices=1, milli=600)
    found = waits(cluster, ClusterJob("x", half, workers=2), ClusterJob("whole", WorkerDemand(devices=1)))
    assert found == {"whole": Shortage(1, "cluster", 0, ("devices",))}


def test_devices_of_another_host_are_no_help_for_one_worker() -> None:
    cluster = Cluster("two", tuple(ClusterHost(name, 32, 10**11, (GPU, GPU, GPU)) for name in "ab"))
    found = waits(cluster, ClusterJob("wide", WorkerDemand(devices=4)))
    assert found["wide"] == TooLarge(1, 0, ("devices",))
    assert found["wide"].sentence == (
        "can never run here: 1 worker wanted, and the empty cluster has room for 0; too few devices: each worker "
        "needs 4, and the largest host has 3"
    )


def test_a_required_level_is_named() -> None:
    cluster = Cluster("two", tuple(ClusterHost(name, 8, 10**11) for name in "ab"))
    job = ClusterJob("together", WorkerDemand(cores=4), workers=3, level="host", mode="required")
    assert waits(cluster, job)["together"] == TooLarge(3, 2, ("cores",))
    small = ClusterJob("small", WorkerDemand(cores=6), workers=2)
    tight = ClusterJob("tight", WorkerDemand(cores=2), workers=3, level="host", mode="required")
    assert waits(cluster, small, tight)["tight"].sentence == (
        "needs 3 workers in one host, and the best has room for 1: too few free cores"
    )


def test_limits_of_queues_are_reasons() -> None:
    queues = (Queue("all", devices=Quota(limit=3)), Queue("mine", "all"), Queue("yours", "all"))
    cluster = Cluster("one", (ClusterHost("a", 32, 10**11, (GPU,) * 8),), queues=queues)
    jobs = [ClusterJob(f"{queue}-{number}", WorkerDemand(devices=1), queue=queue) for queue in ("mine", "yours") for number in range(2)]
    assert waits(cluster, *jobs) == {"yours-1": OverLimit("all", "devices", 3, 3.0, 1.0)}


def test_nobody_passes_in_a_strict_line_and_short_jobs_pass_a_reservation() -> None:
    cluster = Cluster("one", (ClusterHost("a", 4), ClusterHost("b", 4)))
    running = ClusterJob("running", WorkerDemand(cores=4), estimate=100.0)
    wide = ClusterJob("wide", WorkerDemand(cores=4), workers=2)
    short, long = ClusterJob("short", WorkerDemand(cores=4), estimate=90.0), ClusterJob("long", WorkerDemand(cores=4), estimate=200.0)
    strict = SchedulerConfig(FirstIn(), line=StrictLine(), preemption=NoPreemption())
    assert waits(cluster, running, wide, short, config=strict) == {"wide": Shortage(2, "cluster", 1, ("cores",)), "short": InLine("wide")}
    filled = SchedulerConfig(FirstIn(), line=Backfill(), preemption=NoPreemption())
    assert list(waits(cluster, running, wide, short, config=filled)) == ["wide"]
    assert waits(cluster, running, wide, long, config=filled)["long"] == Reserved("wide", 100.0)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: ClusterJob("a", workers=-2), "workers=-2: give 1 or more"),
        (lambda: ClusterJob("a", workers=2, min_workers=3), "min_workers=3 and workers=2: give at least 1, at most 2"),
        (lambda: ClusterHost("a", cores=0), "'a' has cores=0: give more than 0"),
        (lambda: ClusterHost("", cores=1), "has no name"),
        (lambda: ClusterJob("a", mode="perhaps"), "preferred"),
        (lambda: WorkerDemand(cores=0), "above zero"),
        (lambda: WorkerDemand(devices=2, milli=500), "one device"),
        (lambda: Cluster("none", ()), "no host"),
        (lambda: Cluster("twice", (ClusterHost("a", 1), ClusterHost("a", 1))), "one name"),
        (lambda: Cluster("site", (ClusterHost("a", 1, site="mars"),)), "mars"),
        (lambda: Queue("a", devices=Quota(5, 2)), "limit"),
        (lambda: Cluster("circle", (ClusterHost("a", 1),), queues=(Queue("a", "b"), Queue("b", "a"))), "below itself"),
        (lambda: ClusterState(Cluster("c", (ClusterHost("a", 1),))).after(JobSubmitted(ClusterJob("j", queue="none")), 0.0), "No queue"),
        (lambda: ClusterState(Cluster("c", (ClusterHost("a", 1),))).after(JobSubmitted(ClusterJob("j", level="row")), 0.0), "No level"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(wrong, words: str) -> None:
    with pytest.raises(PolyrhythmError, match=words):
        wrong()


def test_capacities_are_vectors() -> None:
    assert not Capacity(1000, 0, (400, 400)).without(0, 0, (0,), 800).is_valid
