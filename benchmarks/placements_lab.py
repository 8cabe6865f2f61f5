"""Placements that the planner of clusters chooses, in the lab (root): seconds of each job to its target, beside the forecast.

    python benchmarks/placements_lab.py --json benchmarks/results/placements_lab.json

For each of three sites with four hosts, `plan_cluster` decides by forecasts which hosts train which job, with which system, and in which
order. Then every host of the lab does what the plan has for it: it joins its jobs one after the other, on lines with the rates and
latencies of the site. A step takes the seconds of the host's machine, of which it sleeps what is left, since all hosts share the cores of
this machine. Evaluations are on a grid whose times grow by a fifth, so what is measured is when the steps were taken that the forecast
counts; when an evaluation met the target is shown beside. A forecast does not have the start of processes: all hosts train a few steps
together before their first job. Sites, jobs, seeds and the goal, 15 % for each job and for the mean completion, were fixed before the first
run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from placement_job import PACE, Train

import polyrhythm as pr
from polyrhythm.cluster import Cluster, ClusterHost, ClusterJob, DomainLevel, WorkerDemand
from polyrhythm.core.kernel.events import Stepped
from polyrhythm.core.records.metrics import curve_of, parse_target
from polyrhythm.hardware.network import Network
from polyrhythm.hardware.network_json import network_json
from polyrhythm.hardware.site import Site
from polyrhythm.tools.emulation.frames import address
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.limited import Limited
from polyrhythm.tools.scheduling.cluster_plan import ClusterPlan, plan_cluster
from polyrhythm.tools.scheduling.training_forecasts import TrainingForecaster, TrainingGoal

JOB = str(Path(__file__).with_name("placement_job.py"))
TARGET, GOAL = "accuracy=0.93", 0.15
FAST, SLOW = 0.04, 0.12
"""The seconds of a step."""
PORT = 29700
MBIT = 1e6 / 8
WIDTHS = {"narrow": 256, "wide": 4096, "middling": 1024}


@dataclass(frozen=True, slots=True)
class Scenario:
    """A site, of which each host has a place in it and the seconds of a step, and the jobs that wait."""

    name: str
    network: Network
    hosts: tuple[tuple[str, float], ...]
    jobs: tuple[str, ...]

    def cluster(self, folder: Path) -> Cluster:
        """The site, whose machines are described in files of `folder`."""
        hosts = []
        for number, (site, seconds) in enumerate(self.hosts):
            machine = folder / f"{seconds}.json"
            machine.write_text(json.dumps({"name": machine.stem, "seconds_per_step": seconds}))
            hosts.append(ClusterHost(f"host-{number}", cores=1, machine=str(machine), site=site))
        return Cluster(self.name.replace(" ", "-"), tuple(hosts), (DomainLevel("site"),), network=self.network)


def _office(name: str, rate: float, latency: float) -> Site:
    return Site(name, rate * MBIT, rate * MBIT, latency)


def scenarios() -> list[Scenario]:
    """The three sites, with two to four jobs."""
    infinite = float("inf")
    office = Network("office", (_office("office", 100, 0.001),), ((0.0,),), ((infinite,),))
    offices = Network(
        "offices",
        (_office("east", 200, 0.0005), _office("west", 200, 0.0005)),
        ((0.0, 0.02), (0.02, 0.0)),
        ((infinite, 20 * MBIT), (20 * MBIT, infinite)),
    )
    home = Network("home", (Site("home", 20 * MBIT, 100 * MBIT, 0.01),), ((0.0,),), ((infinite,),))
    return [
        Scenario("fast and slow in one office", office, (("office", FAST),) * 2 + (("office", SLOW),) * 2, ("wide", "narrow", "middling")),
        Scenario("two offices", offices, (("east", FAST),) * 2 + (("west", FAST),) * 2, ("wide", "middling", "narrow", "wide")),
        Scenario("at home", home, (("home", FAST),) * 3 + (("home", SLOW),), ("middling", "narrow")),
    ]


@dataclass(frozen=True, slots=True)
class Planned:
    """One job of a plan: its kind, its hosts, the system, the steps that are forecast, when it starts, and how many seconds it takes."""

    kind: str
    hosts: tuple[int, ...]
    system: str
    steps: int
    starts: float = 0.0
    seconds: float = 0.0

    def train(self) -> Limited:
        """The training of this kind, some steps beyond the target."""
        return Limited(Train(WIDTHS[self.kind]), round(1.1 * self.steps) + 5)


def planned(scenario: Scenario, folder: Path) -> tuple[ClusterPlan, list[Planned]]:
    """The plan of the site, and its jobs in the order of their start."""
    cluster = scenario.cluster(folder)
    names = {f"{number}-{kind}": kind for number, kind in enumerate(scenario.jobs)}
    goals = {name: TrainingGoal(JOB, TARGET, (("width", str(WIDTHS[kind])),)) for name, kind in names.items()}
    jobs = [ClusterJob(name, WorkerDemand(cores=1), len(cluster.hosts), 1) for name in names]
    forecaster = TrainingForecaster(goals)
    plan, found = plan_cluster(cluster, jobs, forecaster), []
    for each in plan.jobs:
        hosts = tuple(int(host.removeprefix("host-")) for host in each.placement.hosts)
        system = each.placement.system or "allreduce"
        steps = steps_of(forecaster, goals[each.job], Candidate(system, len(hosts)))
        found.append(Planned(names[each.job], hosts, system, steps, each.starts, each.ends - each.starts))
    return plan, sorted(found, key=lambda each: each.starts)


def steps_of(forecaster: TrainingForecaster, goal: TrainingGoal, candidate: Candidate) -> int:
    """The steps of a worker to the target, by the runs that the forecast was made from."""
    whole = forecaster.whole(goal, candidate)
    assert whole is not None, "what is planned meets its target"
    assert whole.end is not None, "what is planned meets its target"
    return round(whole.end.samples / candidate.workers / Train().batch_size)


def warm_up() -> None:
    """Some steps of all hosts together, so that no job waits for one that is still importing torch."""
    worker = pr.join("allreduce")
    Limited(Train(16), 3)(worker)
    worker.leave()


def host(jobs: Sequence[Planned], paces: Sequence[float]) -> None:
    """One host of the lab: its jobs one after another. The first worker of each prints the seconds of the steps that are forecast, and
    those to the first evaluation that meets the target."""
    here = int(os.environ["RANK"])
    warm_up()
    os.environ[PACE] = str(paces[here])
    for number, job in enumerate(jobs):
        if here not in job.hosts:
            continue
        os.environ |= {"RANK": str(job.hosts.index(here)), "WORLD_SIZE": str(len(job.hosts))}
        os.environ |= {"MASTER_ADDR": address(job.hosts[0]), "MASTER_PORT": str(PORT + number)}
        worker = pr.join(job.system)
        job.train()(worker)
        run = worker.leave()
        if worker.is_first:
            target = parse_target(TARGET)
            met = [event.time for event in curve_of(run.outcome, target.metric) if target.met_by(event.metrics[target.metric])]
            own = [event for event in run.outcome.events if isinstance(event, Stepped) and event.actor == "worker/0"]
            print(json.dumps([number, [own[job.steps - 1].time, min(met, default=float("inf"))]]), flush=True)


def measured(jobs: Sequence[Planned], scenario: Scenario, folder: Path) -> list[tuple[float, float]]:
    """The seconds of each job's steps, and to the evaluation that meets its target, in the lab."""
    cluster = scenario.cluster(folder)
    network = folder / "network.json"
    network.write_text(network_json(cluster.network_of([each.name for each in cluster.hosts])))
    order = folder / "plan.json"
    order.write_text(
        json.dumps([[[each.kind, each.hosts, each.system, each.steps] for each in jobs], [pace for _, pace in scenario.hosts]])
    )
    lab = (sys.executable, "-m", "polyrhythm", "lab", "--hosts", str(len(cluster.hosts)), "--network", str(network), "--quiet", "--")
    command = [*lab, sys.executable, "-W", "ignore", __file__, "--host", str(order)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    found = dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))
    return [found[number] for number in range(len(jobs))]


def completions(jobs: Sequence[Planned], seconds: Sequence[float]) -> float:
    """The mean end, if each job starts when those before it on its hosts have ended."""
    free: dict[int, float] = {}
    ends = []
    for job, lasts in zip(jobs, seconds, strict=True):
        ends.append(max((free.get(each, 0.0) for each in job.hosts), default=0.0) + lasts)
        free |= dict.fromkeys(job.hosts, ends[-1])
    return statistics.fmean(ends)


def shown(jobs: Sequence[Planned], found: Sequence[Sequence[tuple[float, float]]]) -> list[dict[str, Any]]:
    """A row for each job, and one for the mean completion."""
    medians = [statistics.median(seconds for seconds, _ in each) for each in zip(*found, strict=True)]
    met = [statistics.median(seconds for _, seconds in each) for each in zip(*found, strict=True)]
    rows: list[dict[str, Any]] = []
    for job, median, evaluated in zip(jobs, medians, met, strict=True):
        about = {"job": job.kind, "hosts": job.hosts, "system": job.system, "steps": job.steps}
        rows.append({**about, "forecast": job.seconds, "measured": median, "evaluated": evaluated})
    mean = completions(jobs, medians)
    rows.append({"job": "mean completion", "forecast": completions(jobs, [job.seconds for job in jobs]), "measured": mean})
    for row in rows:
        row["error"] = row["forecast"] / row["measured"] - 1
        text = f"{row.get('system', ''):10} {row.get('hosts', '')!s:14}"
        evaluated = f"; target met at {row['evaluated']:.2f} s" if "evaluated" in row else ""
        print(f"  {row['job']:16} {text} {row['forecast']:7.2f} s {row['measured']:7.2f} s {row['error']:+.1%}{evaluated}", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.host:
        jobs, paces = json.loads(options.host.read_text())
        host([Planned(*each) for each in jobs], paces)
        return
    results = []
    for scenario in scenarios():
        with tempfile.TemporaryDirectory() as name:
            began = time.monotonic()
            plan, jobs = planned(scenario, Path(name))
            print(f"{scenario.name}: planned in {time.monotonic() - began:.0f} s; {plan.refused or ''}", flush=True)
            found = [measured(jobs, scenario, Path(name)) for _ in range(options.rounds)]
        results.append({"scenario": scenario.name, "rows": shown(jobs, found), "seconds": found, "load": os.getloadavg()[0]})
    errors = [abs(row["error"]) for each in results for row in each["rows"]]
    print(f"worst {max(errors):.1%}, median {statistics.median(errors):.1%}; within {GOAL:.0%}: {sum(each <= GOAL for each in errors)}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
