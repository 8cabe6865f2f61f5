"""The simulation of many jobs: conservation of work, costs of changes, failures, and traces."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from clusters import CONFIGS

from polyrhythm.cluster import (
    Cluster,
    ClusterDevice,
    ClusterHost,
    ClusterJob,
    DeviceTopology,
    FirstIn,
    JobPlacement,
    NoPreemption,
    SchedulerConfig,
    WorkerDemand,
    WorkerSlot,
)
from polyrhythm.cluster.reasons import TooLarge
from polyrhythm.cluster.simulation import (
    ChangeCosts,
    HostFailures,
    PlacementSpeed,
    TracedJob,
    World,
    simulate_cluster,
)
from polyrhythm.cluster.traces import TRACE_FORMATS, pollux_speeds, read_alibaba_hosts, read_trace, write_sample
from polyrhythm.errors import PolyrhythmError

FIFO = SchedulerConfig(FirstIn(), preemption=NoPreemption())


def box(hosts: int = 2, devices: int = 8) -> Cluster:
    topology = DeviceTopology.cube_mesh() if devices == 8 else None
    return Cluster("box", tuple(ClusterHost(f"h{n}", 96, 10**12, (ClusterDevice(),) * devices, topology) for n in range(hosts)))


def laptops(count: int) -> Cluster:
    return Cluster("home", tuple(ClusterHost(f"l{n}", 4) for n in range(count)))


def test_jobs_that_wait_for_each_other_take_their_times_one_after_another() -> None:
    jobs = [TracedJob(10.0 * n, ClusterJob(f"j{n}", WorkerDemand(cores=3)), 100.0) for n in range(3)]
    run = simulate_cluster(laptops(1), jobs, FIFO)
    assert [job.ended for job in run.jobs] == [100.0, 200.0, 300.0]
    assert [job.wait for job in run.jobs] == [0.0, 90.0, 180.0]
    assert run.in_use("cores") == pytest.approx(3.0)


@pytest.mark.parametrize("policy", CONFIGS)
@pytest.mark.parametrize("name", TRACE_FORMATS)
def test_every_policy_ends_all_jobs_of_every_format_and_does_all_of_their_work(policy: str, name: str, tmp_path: Path) -> None:
    trace = read_trace(write_sample(name, tmp_path, seed=1, jobs=30))
    cluster = Cluster("t", read_alibaba_hosts(tmp_path / "alibaba-hosts.csv")) if name == "alibaba" else box()
    run = simulate_cluster(cluster, trace, CONFIGS[policy], policy=policy)
    assert len(run.jobs) + len(run.unfinished) == 30
    assert all(isinstance(reason, TooLarge) for reason in run.unfinished.values())
    done = {job.name for job in run.jobs}
    work = sum(traced.seconds * traced.job.amount for traced in trace if traced.job.name in done)
    had = sum((part.end - part.begin) * len(part.placement.slots) * amounts(trace)[part.job] for part in run.segments)
    assert had >= 0.999 * work
    assert simulate_cluster(cluster, trace, CONFIGS[policy], policy=policy) == run


def amounts(trace: tuple[TracedJob, ...]) -> dict[str, float]:
    return {traced.job.name: traced.job.demand.amount for traced in trace}


def test_no_two_segments_share_a_device(tmp_path: Path) -> None:
    trace = read_trace(write_sample("tiresias", tmp_path, seed=2, jobs=60))
    run = simulate_cluster(box(1), trace, CONFIGS["las"], World(failures=HostFailures(20000.0, 60.0)), seed=3)
    held: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for part in run.segments:
        for slot in part.placement.slots:
            for device in slot.devices:
                held.setdefault((slot.host, device), []).append((part.begin, part.end))
    for times in held.values():
        times.sort()
        assert all(before[1] <= after[0] + 1e-6 for before, after in itertools.pairwise(times))


def test_the_speed_of_a_placement_is_that_of_its_slowest_link() -> None:
    job = ClusterJob("j", WorkerDemand(devices=1), workers=2, step_compute=1.0, step_bytes=10e9)
    slots = (WorkerSlot("h0", (0,)), WorkerSlot("h0", (1,)))
    assert PlacementSpeed().speed(job, JobPlacement("j", slots, quality=10e9), box()) == 0.5
    assert PlacementSpeed().speed(job, JobPlacement("j", slots[:1]), box()) == 0.5


def test_a_stopped_job_pays_for_its_restart_and_keeps_what_it_has_done() -> None:
    config = SchedulerConfig(FirstIn())
    jobs = [
        TracedJob(0.0, ClusterJob("low", WorkerDemand(cores=4)), 100.0),
        TracedJob(40.0, ClusterJob("high", WorkerDemand(cores=4), priority=1), 50.0),
    ]
    low, high = simulate_cluster(laptops(1), jobs, config, World(costs=ChangeCosts(restart=30.0))).jobs
    assert (high.ended, low.ended, low.stops) == (90.0, 180.0, 1)


def test_a_lost_host_takes_what_came_after_the_last_checkpoint() -> None:
    """One failure at some time t: the job ends at t + repair + restart + what was not in the checkpoint of every 10 s."""
    world = World(costs=ChangeCosts(restart=5.0, checkpoint=10.0), failures=HostFailures(60.0, 20.0))
    (lost, _, back) = next(world.failures.times(laptops(1), 7))
    (job,) = simulate_cluster(laptops(1), [TracedJob(0.0, ClusterJob("j", WorkerDemand(cores=4)), lost + 8.0)], FIFO, world, seed=7).jobs
    assert job.ended == pytest.approx(back + 5.0 + lost + 8.0 - lost // 10 * 10)


def test_a_malleable_job_goes_on_when_a_host_is_lost() -> None:
    rigid = [TracedJob(0.0, ClusterJob("j", WorkerDemand(cores=4), workers=4), 20000.0)]
    malleable = [TracedJob(0.0, ClusterJob("j", WorkerDemand(cores=4), workers=4, min_workers=1), 20000.0)]
    world = World(failures=HostFailures(3600.0, 1800.0))
    (stopped,), (shrunk,) = (simulate_cluster(laptops(4), jobs, FIFO, world, seed=1).jobs for jobs in (rigid, malleable))
    assert stopped.stops > 0
    assert shrunk.stops == 0
    assert shrunk.resizes > 0
    assert shrunk.completion < stopped.completion


def test_a_job_that_can_never_run_is_named_and_does_not_hold_the_others() -> None:
    jobs = [TracedJob(0.0, ClusterJob("wide", WorkerDemand(cores=9)), 10.0), TracedJob(1.0, ClusterJob("small"), 10.0)]
    run = simulate_cluster(laptops(1), jobs, FIFO)
    assert [job.name for job in run.jobs] == ["small"]
    assert list(run.unfinished) == ["wide"]


def test_speeds_of_pollux_are_one_at_the_best_measured_placement(tmp_path: Path) -> None:
    path = write_sample("pollux", tmp_path, jobs=20)
    speeds = pollux_speeds(path)
    job = next(traced.job for traced in read_trace(path) if traced.job.workers == 4)
    together = JobPlacement(job.name, tuple(WorkerSlot("a", (device,)) for device in range(4)))
    apart = JobPlacement(job.name, tuple(WorkerSlot(host, (0,)) for host in "abcd"))
    assert speeds.speed(job, together, box()) == 1.0
    assert speeds.speed(job, apart, box()) < 1.0


def test_samples_are_the_same_for_the_same_seed() -> None:
    for known in TRACE_FORMATS.values():
        assert known.sample(5, 20) == known.sample(5, 20) != known.sample(6, 20)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n", "no known format"),
        ("timestamp,duration,num_gpus\nyesterday,5,1\n", "yesterday"),
        ("timestamp,duration,num_gpus\n2017-10-03 07:00:00,long,1\n", "long"),
    ],
)
def test_a_wrong_trace_is_refused_with_a_sentence(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(PolyrhythmError, match=words):
        read_trace(path)
