"""The planner's first choice in the lab: its real time beside the predicted one, and raced against rivals (root only).

    python benchmarks/planned.py --task digits --network slow --out benchmarks/results/planned-digits-slow.json

The task's bundled workload is timed on this machine with as many workers as the task has (`polyrhythm calibrate`), and planned for the
network with these step times and that many workers; one machine alone is predicted by its own steps, since workers here share cores. The
first choice, which may be one machine alone, then trains for real on hosts of the lab, under seeds 0 to 2: its time to the target is
compared with the predicted bounds. Last it is raced as in time_to_accuracy.py: same first weights, same batches, the clock stands still
while models are judged; rivals have their tuned rates, the choice has the rate that the planner chose.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch
import torch._dynamo  # what the first step of an optimizer imports, in seconds
from racing.rivals import ALONE
from racing.task import TASKS, Heat
from time_to_accuracy import CAPS, SHORT, _able, _network, _rates, heard, table

import polyrhythm as pr
from polyrhythm.core.records.metrics import curve_of, parse_target
from polyrhythm.core.records.progress import board
from polyrhythm.tools.cli.record import read
from polyrhythm.tools.measuring.calibrate import device_profile
from polyrhythm.tools.planner.limited import Limited
from polyrhythm.tools.planner.plan import PlanRequest
from polyrhythm.tools.planner.verify import Verification
from polyrhythm.workloads.load import load_workload

RIVALS = ("ddp", "ddp-fp16", "ddp-powersgd-2", "local-sgd-8", "local-sgd-16", "local-sgd-32", "hivemind-local")
SEEDS = (0, 1, 2)
VERIFIED, CORES = 6, os.cpu_count() or 1
"""The first few choices are corrected by what their systems compute, as `polyrhythm plan --verify 6` does."""
LONGER = 3.0
"""A real run has so many times the samples that the planner expects to be needed."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A task of the race as a JOB: what it is called, its settings, the target, and the seconds of the search."""

    job: str
    settings: Mapping[str, Any]
    target: str
    budget: float


JOBS = {
    "digits": Planned("digits-mlp", {}, "accuracy=0.96", 100.0),
    "chars": Planned("chars-gpt", {"samples": 20_480}, "bits=2.6", 600.0),
}


def chosen(task: str, network: str, budget: float | None) -> dict[str, Any]:
    """The planner's answer for as many workers as the task has, on this machine's processors."""
    planned, workers = JOBS[task], TASKS[task].workers
    train = load_workload(planned.job, planned.settings)
    profile, alone = (device_profile(train, workers=count) for count in (workers, 1))
    steps = {count: mean(each.seconds_per_step) for count, each in ((workers, profile), (1, alone))}
    print(f"a step takes {1e3 * steps[workers]:.1f} ms with {workers} workers, {1e3 * steps[1]:.1f} ms with one", file=sys.stderr)
    request = PlanRequest(
        planned.target, network, profile, (workers,), settings=planned.settings, budget=budget or planned.budget, jobs=CORES
    )
    with board(1, wanted=False) as line:
        planner = request.planner(load_workload(planned.job), planned.job, request.pool_with(line))
        plan = planner.plan()
        print(pr.plan_text(plan), file=sys.stderr, flush=True)
        plan = Verification(planner.found, planner.pool, lambda name, problem: print(name, problem, file=sys.stderr)).correct(
            plan, planner.contenders(VERIFIED)
        )
    print(pr.plan_text(plan), file=sys.stderr, flush=True)
    if plan.best is None:
        raise SystemExit("The planner found no way to the target.")
    best = plan.best
    expected = best.seconds.times(steps[1] / steps[workers]) if best.is_alone else best.seconds
    return {
        "system": best.system,
        "workers": best.workers,
        "options": best.options,
        "settings": best.settings,
        "samples": best.samples,
        "predicted": [expected.low, expected.middle, expected.high],
        "corrected": best.corrected,
        "others": [[each.name, each.seconds.middle] for each in plan.choices[1:]],
        "planned_in": plan.seconds,
    }


def host(task: str, choice: Mapping[str, Any], seed: int, out: Path) -> None:
    """One host of the lab, as a script of a user has it."""
    torch.set_num_threads(1)
    planned, workers = JOBS[task], choice["workers"]
    train = load_workload(planned.job, {**planned.settings, **choice["settings"], **({"epochs": 1000} if task == "digits" else {})})
    TASKS[task].data()  # before the clock begins
    steps = int(LONGER * choice["samples"] / workers / TASKS[task].batch) + 1
    strategy = pr.systems.find(choice["system"], **choice["options"])
    worker = pr.join(strategy, seed=seed, directory=out)
    Limited(train, steps, whole_epochs=strategy.chooses)(worker)
    worker.leave()


def real(task: str, network: str, choice: Mapping[str, Any]) -> list[float]:
    """Seconds to the target on hosts of the lab, of each seed; infinite where a run did not come to it."""
    goal = parse_target(JOBS[task].target)
    found = []
    for seed in SEEDS:
        with tempfile.TemporaryDirectory() as directory:
            lab = [sys.executable, "-m", "polyrhythm", "lab", "--hosts", str(choice["workers"]), "--network", network, "--quiet", "--"]
            inner = [sys.executable, __file__, "--task", task, "--host", json.dumps(choice), "--seed", str(seed), "--out", directory]
            subprocess.run([*lab, *inner], check=True, timeout=600)
            outcome = read([Path(directory) / "worker-0"]).outcomes[0]
        reached = [event.time for event in curve_of(outcome, goal.metric) if goal.met_by(event.metrics[goal.metric])]
        found.append(min(reached, default=float("inf")))
        print(f"seed {seed}: {found[-1]:.2f} s", file=sys.stderr, flush=True)
    return found


def race(task: str, network: str, choice: Mapping[str, Any], seeds: Sequence[int], cap: float | None) -> list[dict[str, Any]]:
    """Heats of the choice and of the rivals."""
    way = " ".join([choice["system"], *(f"{key}={json.dumps(value)}" for key, value in choice["options"].items())])
    way = ALONE if choice["workers"] == 1 else way
    rates = {**_rates(TASKS[task]), way: choice["settings"].get("learning_rate", load_workload(JOBS[task].job).learning_rate)}
    longest = cap or CAPS.get(network, 60.0)
    heats = [
        Heat(task, name, seed, rates.get(name, TASKS[task].rates[0]), min(longest, SHORT.get(name, longest)))
        for seed in seeds
        for name in [way, *_able(RIVALS)]
    ]
    rows = []
    for row in heard(network, heats):
        rows.append(row)
        told = row.get("error") or f"{'reached' if row['reached'] else 'not reached'} in {row['seconds']:.2f} s, {row['samples']} samples"
        print(f"{row['way']}, seed {row['seed']}: {told}", file=sys.stderr, flush=True)
    print(table(TASKS[task], Path(network).stem, rows), flush=True)
    return rows


def main() -> None:
    """Plan, train for real, and race."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=list(JOBS), default="digits")
    parser.add_argument("--network", default="slow")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--budget", type=float, help="seconds of the search; else 100 for digits and 600 for chars")
    parser.add_argument("--cap", type=float, help="seconds of a heat")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0], help="of the race; none for no race")
    parser.add_argument("--host", help="the choice that this host of the lab trains")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.host is not None:
        host(given.task, json.loads(given.host), given.seed, given.out)
        return
    torch.set_num_threads(1)
    network = _network(given.network)
    choice = chosen(given.task, network, given.budget)
    row: dict[str, Any] = {"task": given.task, "network": given.network, "choice": choice}

    def keep() -> None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(row, indent=1) + "\n")

    keep()
    row["real_seconds"] = real(given.task, network, choice)
    middle = choice["predicted"][1]
    print(f"predicted {middle:.2f} s, measured {median(row['real_seconds']):.2f} s", file=sys.stderr, flush=True)
    keep()
    if given.seeds:
        row["heats"] = race(given.task, network, choice, given.seeds, given.cap)
        keep()


if __name__ == "__main__":
    main()
