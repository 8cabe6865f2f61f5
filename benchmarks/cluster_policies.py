"""The decision core of `pr.cluster` against baselines in the same run: device sets, waits, completion times, shares, evictions, speed.

    python benchmarks/cluster_policies.py --out benchmarks/results/cluster_policies.json [--traces DIR] [--only C1,C3] [--seeds 10]

DIR may hold `philly.csv` (branch osdi21-artifact of petuum/adaptdl), `openb_pod_list_default.csv` with `openb_node_list_gpu_node.csv`
(alibaba/clusterdata, cluster-trace-gpu-v2023); what is missing is generated, and the row says so. Bars and settings were fixed before the
first run. Times of jobs are virtual; seconds of C9 are those of the processor.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from polyrhythm.cluster import (
    Backfill,
    BinPack,
    Cluster,
    ClusterDevice,
    ClusterHost,
    ClusterJob,
    ClusterState,
    DeviceTopology,
    FirstIn,
    GangPlacement,
    JobSubmitted,
    LeastAttained,
    LeastFragmentation,
    NoPreemption,
    SchedulerConfig,
    ShortestRemaining,
    SpreadNodes,
    StrictLine,
    Transaction,
    WorkerDemand,
    decide,
)
from polyrhythm.cluster.nodes.fragmentation import observed
from polyrhythm.cluster.rings import pick_ring, ring_bandwidth
from polyrhythm.cluster.simulation import ChangeCosts, ClusterRun, HostFailures, TracedJob, World, simulate_cluster
from polyrhythm.cluster.traces import read_alibaba_hosts, read_trace, write_sample
from polyrhythm.core import streams

BOXES = {
    "cube-mesh": DeviceTopology.cube_mesh(),
    "4 pairs": DeviceTopology.groups([2, 2, 2, 2], 50e9, 10e9),
    "2 quads": DeviceTopology.groups([4, 4], 50e9, 10e9),
}
JOBS = 2000
LOAD = 0.9
"""The device-seconds of all jobs over those of the cluster until the last arrives."""
EVERY = (4, 1)
"""Of the hosts of Alibaba's trace, every so many are used: a quarter of them for a quick look, and all."""
LONGEST = 3 * 86400.0


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement, its bar, and whether it was met."""

    number: str
    what: str
    measured: str
    bar: str
    met: bool


# C1, C2: device sets


def first_fit(topology: DeviceTopology, free: int, count: int, draws: np.random.Generator) -> int:
    bits = [1 << place for place in range(8) if free >> place & 1]
    return sum(bits[:count])


def at_random(topology: DeviceTopology, free: int, count: int, draws: np.random.Generator) -> int:
    bits = [1 << place for place in range(8) if free >> place & 1]
    return sum(int(bit) for bit in draws.choice(bits, count, replace=False))


def largest_sum(topology: DeviceTopology, free: int, count: int, draws: np.random.Generator) -> int:
    """The set with the largest sum of bandwidths between its devices, as allocators that score pairs choose; the first for one."""
    bits = [place for place in range(8) if free >> place & 1]
    best = max(combinations(bits, count), key=lambda each: sum(topology.bandwidth[a][b] for a, b in combinations(each, 2)))
    return sum(1 << place for place in best)


def ours(topology: DeviceTopology, free: int, count: int, draws: np.random.Generator) -> int:
    chosen = pick_ring(topology, free, count)
    assert chosen is not None
    return chosen


PICKS = {"ours": ours, "first-fit": first_fit, "random": at_random, "sum": largest_sum}


def device_sets(topology: DeviceTopology, pick: Callable[..., int], seed: int) -> tuple[float, float]:
    """For a mix of one, two and four devices that come and go: bandwidth over that of the best free set, and the part of the best."""
    draws = streams.stream(seed, "benchmark", "device-sets")
    own = streams.stream(seed, "benchmark", "device-sets", "random")
    free, running, ratios, best_of_box = 255, [], [], []
    for _ in range(3000):
        count = int(draws.choice((1, 2, 4), p=(0.5, 0.3, 0.2)))
        leaving = int(draws.integers(1 << 30))
        while free.bit_count() < count or (running and draws.random() < 0.3):
            free |= running.pop(leaving % len(running))
        bits = [1 << place for place in range(8) if free >> place & 1]
        chosen = pick(topology, free, count, own)
        if count > 1:
            found = ring_bandwidth(topology, chosen)
            ratios.append(found / max(ring_bandwidth(topology, sum(each)) for each in combinations(bits, count)))
            best_of_box.append(found >= max(ring_bandwidth(topology, sum(1 << d for d in each)) for each in combinations(range(8), count)))
        free &= ~chosen
        running.append(chosen)
    return statistics.fmean(ratios), statistics.fmean(best_of_box)


def c1(options: Options) -> Iterator[Row]:
    for box, topology in BOXES.items():
        found = {name: [device_sets(topology, pick, seed) for seed in range(options.seeds)] for name, pick in PICKS.items()}
        ratio = {name: statistics.fmean(each[0] for each in pairs) for name, pairs in found.items()}
        share = {name: statistics.fmean(each[1] for each in pairs) for name, pairs in found.items()}
        met = ratio["ours"] >= 0.995 and ratio["ours"] >= 1.25 * ratio["first-fit"] and ratio["ours"] >= ratio["sum"]
        bar = ">= 0.995, >= 1.25 x first-fit, >= sum"
        yield Row("C1", f"bandwidth over that of the best free set, {box}", shown(ratio), bar, met)
        yield Row("C2", f"part of jobs with the best ring of the box, {box}", shown(share), ">= 0.92", share["ours"] >= 0.92)


# C3, C4: waits and completion times


def philly(options: Options, seed: int) -> list[TracedJob]:
    """2,000 jobs of at most 32 devices and three days: 60 % with one device, 40 % with more, drawn from the trace; uniform arrivals."""
    draws = streams.stream(seed, "benchmark", "philly")
    known = [traced for traced in options.philly if traced.job.amount <= 32]
    one, more = ([each for each in known if (each.job.amount > 1) == several] for several in (False, True))
    drawn = []
    for _ in range(options.jobs):
        pool = one if draws.random() < 0.6 else more
        drawn.append(pool[int(draws.integers(len(pool)))])
    seconds = [min(each.seconds, LONGEST) for each in drawn]
    span = sum(each.job.amount * lasts for each, lasts in zip(drawn, seconds, strict=True)) / (128 * LOAD)
    times = sorted(float(each) for each in draws.uniform(0.0, span, len(drawn)))
    return [
        TracedJob(moment, replace(each.job, name=f"job-{place}", estimate=lasts), lasts)
        for place, (moment, each, lasts) in enumerate(zip(times, drawn, seconds, strict=True))
    ]


def sixteen() -> Cluster:
    return Cluster(
        "16x8", tuple(ClusterHost(f"h{n:02d}", 96, 10**12, (ClusterDevice(),) * 8, DeviceTopology.cube_mesh()) for n in range(16))
    )


POLICIES = {
    "pack": SchedulerConfig(FirstIn(), GangPlacement(BinPack()), Backfill(), NoPreemption()),
    "spread": SchedulerConfig(FirstIn(), GangPlacement(SpreadNodes()), Backfill(), NoPreemption()),
    "strict": SchedulerConfig(FirstIn(), line=StrictLine(), preemption=NoPreemption()),
    "las": SchedulerConfig(LeastAttained()),
    "srtf": SchedulerConfig(ShortestRemaining()),
}


def c3(options: Options) -> Iterator[Row]:
    runs: dict[str, list[ClusterRun]] = {name: [] for name in POLICIES}
    for seed in range(options.seeds):
        trace = philly(options, seed)
        for name, config in POLICIES.items():
            jobs = [replace(each, job=replace(each.job, estimate=None)) for each in trace] if name == "las" else trace
            runs[name].append(simulate_cluster(sixteen(), jobs, config, World(costs=ChangeCosts(restart=30.0)), name))
            options.note(f"C3 {seed} {name} {runs[name][-1].mean_completion / 3600:.2f} h, {runs[name][-1].stops} stops")
        yield from _c3_c4(options, runs)


def _c3_c4(options: Options, runs: dict[str, list[ClusterRun]]) -> Iterator[Row]:
    seeds = len(runs["pack"])
    wide = {name: statistics.fmean(wait_of_wide(run) for run in found) for name, found in runs.items()}
    mean = {name: statistics.fmean(run.mean_completion for run in found) / 3600 for name, found in runs.items()}
    what = f"{options.jobs} jobs of {options.source('philly.csv')} on 16x8, {seeds} seeds"
    yield Row(
        "C3",
        f"hours that jobs of 8 devices and more wait, {what}",
        shown({name: wide[name] for name in ("pack", "spread")}),
        "pack <= 0.92 x spread",
        wide["pack"] <= 0.92 * wide["spread"],
    )
    met = mean["las"] <= 0.35 * mean["strict"] and mean["las"] <= 1.10 * mean["srtf"]
    yield Row("C4", f"hours to completion, {what}", shown(mean), "las <= 0.35 x strict, <= 1.10 x srtf", met)


def wait_of_wide(run: ClusterRun) -> float:
    return statistics.fmean(job.wait for job in run.jobs if job.amount >= 8) / 3600


# C5: fragmentation


class RandomFit:
    """A random host with room; a baseline."""

    def __init__(self, seed: int) -> None:
        self._draws = streams.stream(seed, "benchmark", "random-fit")

    def prepare(self, state: ClusterState) -> RandomFit:
        return self

    def __call__(self, host: ClusterHost, free: object, demand: WorkerDemand, workers: int) -> tuple[float, ...]:
        return (float(self._draws.random()),)

    def levels(self, levels: Sequence[str]) -> Sequence[str]:
        return levels

    def portion(self, room: int, left: int) -> int:
        return min(room, left)


def c5(options: Options) -> Iterator[Row]:
    """Pods of the trace are drawn and placed, none leaves, until what was asked for is 130 % of all devices (Weng et al., 2023)."""
    pods, hosts = options.alibaba
    classes = observed(pod.job.demand for pod in pods)
    for every in EVERY:
        cluster = Cluster("openb", hosts[::every])
        total = cluster.amount("devices")
        found: dict[str, list[float]] = {"frag": [], "best-fit": [], "random": []}
        for seed in range(options.seeds):
            draws = streams.stream(seed, "benchmark", "pods")
            order = [pods[int(place)] for place in draws.integers(len(pods), size=4 * len(pods))]
            policies = {"frag": LeastFragmentation(classes), "best-fit": BinPack(), "random": RandomFit(seed)}
            for name, nodes in policies.items():
                found[name].append(allocated(cluster, order, GangPlacement(nodes), total) / total)  # type: ignore[arg-type]
                options.note(f"C5 {len(cluster.hosts)} {seed} {name} {found[name][-1]:.4f}")
        ratio = {name: statistics.fmean(each) for name, each in found.items()}
        met = ratio["frag"] >= ratio["best-fit"] + 0.01 and 1 - ratio["frag"] <= 0.85 * (1 - ratio["random"])
        source = options.source("openb_pod_list_default.csv")
        what = f"part of devices in use when 1.3 of them were asked for, {source}, {len(cluster.hosts)} hosts, {options.seeds} seeds"
        yield Row("C5", what, shown(ratio), "frag >= best-fit + 0.01; unused <= 0.85 x random", met)


def allocated(cluster: Cluster, order: Sequence[TracedJob], policy: GangPlacement, total: float) -> float:
    """The devices in use when 1.3 times all of them have been asked for; what does not fit is turned away."""
    state = ClusterState(cluster)
    placer = policy.prepare(state, 0.0)
    trial, asked, used = Transaction(state), 0.0, 0.0
    for place, pod in enumerate(order):
        if asked >= 1.3 * total:
            break
        job = replace(pod.job, name=f"pod-{place}")
        record = ClusterState(cluster, free=state.free).after(JobSubmitted(job), 0.0).jobs[job.name]
        trial.state = replace(state, jobs={job.name: record})
        devices = job.amount if job.demand.devices else 0.0
        asked += devices
        placement = placer.place(record, trial)
        if placement is not None:
            trial.place(placement)
            used += devices
    return used


# C9, and shrinking


def c9(options: Options) -> Iterator[Row]:
    hosts = tuple(ClusterHost(f"h{n:03d}", 96, 10**12, (ClusterDevice(),) * 8, DeviceTopology.cube_mesh()) for n in range(500))
    state = ClusterState(Cluster("500x8", hosts))
    for number in range(4000):
        state = state.after(JobSubmitted(ClusterJob(f"job-{number}", WorkerDemand(devices=1))), 0.0)
    begun = time.process_time()
    placed = len(decide(state, 0.0, SchedulerConfig()))
    seconds = time.process_time() - begun
    yield Row("C9", "processor seconds of one decision: 4,000 jobs on 500x8", f"{seconds:.1f} s, {placed} placed", "<= 20 s", seconds <= 20)


def shrinking(options: Options) -> Iterator[Row]:
    """Forty jobs of four to eight hosts on twelve, one host lost every hour, back after half an hour: rigid gangs and malleable ones."""
    cluster = Cluster("12 hosts", tuple(ClusterHost(f"h{n:02d}", 16) for n in range(12)))
    costs = ChangeCosts(restart=120.0, resize=10.0, checkpoint=1800.0)
    worlds = {"one failure an hour": World(costs=costs, failures=HostFailures(3600.0, 1800.0)), "no failures": World(costs=costs)}
    for circumstance, world in worlds.items():
        ratios = []
        for seed in range(options.seeds):
            draws = streams.stream(seed, "benchmark", "shrinking")
            times = sorted(float(each) for each in draws.uniform(0.0, 40 * 3600.0, 40))
            shapes = [(int(draws.integers(4, 9)), float(draws.uniform(1.0, 3.0)) * 3600.0) for _ in times]
            mean = {}
            for kind, least in (("requeue", None), ("shrink", 1)):
                jobs = [
                    TracedJob(moment, ClusterJob(f"job-{n}", WorkerDemand(cores=16), workers, least, estimate=lasts), lasts)
                    for n, (moment, (workers, lasts)) in enumerate(zip(times, shapes, strict=True))
                ]
                mean[kind] = simulate_cluster(cluster, jobs, SchedulerConfig(FirstIn()), world, kind, seed).mean_completion
            ratios.append(mean["shrink"] / mean["requeue"])
        found = statistics.fmean(ratios)
        measured = f"{found:.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        what = f"mean completion of shrinking over requeueing, {circumstance}, {len(ratios)} seeds"
        yield Row("shrink", what, measured, "<= 0.80 with failures", found <= 0.8 or circumstance == "no failures")


MEASUREMENTS = {"C1": c1, "C9": c9, "shrink": shrinking, "C5": c5, "C3": c3}


class Options:
    """What the command line says, and the traces, read when they are first needed."""

    def __init__(self, folder: Path | None, seeds: int, jobs: int) -> None:
        self.seeds = seeds
        self.jobs = jobs
        self._folder = folder
        self._philly: tuple[TracedJob, ...] = ()

    def source(self, file: str) -> str:
        """The name of a trace, or that a sample stands for it."""
        return file if self._folder is not None and (self._folder / file).exists() else f"a sample in the format of {file}"

    @property
    def philly(self) -> tuple[TracedJob, ...]:
        """The jobs of Philly."""
        if not self._philly:
            given = None if self._folder is None else self._folder / "philly.csv"
            with TemporaryDirectory() as folder:
                self._philly = read_trace(given if given is not None and given.exists() else write_sample("philly", folder, 0, 20000))
        return self._philly

    @property
    def alibaba(self) -> tuple[tuple[TracedJob, ...], tuple[ClusterHost, ...]]:
        """The pods and the hosts of Alibaba."""
        if self._folder is not None and (self._folder / "openb_pod_list_default.csv").exists():
            return read_trace(self._folder / "openb_pod_list_default.csv"), read_alibaba_hosts(
                self._folder / "openb_node_list_gpu_node.csv"
            )
        with TemporaryDirectory() as folder:
            path = write_sample("alibaba", folder, 0, 2000)
            return read_trace(path), read_alibaba_hosts(path.with_name("alibaba-hosts.csv"))

    def note(self, text: str) -> None:
        """Print how far it is."""
        print(text, flush=True)


def shown(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.3f}" if value < 1.5 else f"{name} {value:.1f}" for name, value in values.items())


def main() -> None:
    """Measure, print and write the rows; rows of C3 and C4 are written again after every seed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--only", default=",".join(MEASUREMENTS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=JOBS)
    given = parser.parse_args()
    options = Options(given.traces, given.seeds, given.jobs)
    rows: dict[tuple[str, str], Row] = {}
    for name in given.only.split(","):
        for row in MEASUREMENTS[name](options):
            key = (row.number, row.what.rpartition(", ")[0] if row.number in ("C3", "C4") else row.what)
            rows[key] = row
            print(f"{row.number:7} {'met   ' if row.met else 'MISSED'} {row.what}: {row.measured} (bar: {row.bar})", flush=True)
            if given.out:
                given.out.write_text(json.dumps([asdict(each) for each in rows.values()], indent=1) + "\n")


if __name__ == "__main__":
    main()
