"""How far the planner's first choice is from the best of a grid, on scenarios that were drawn after the planner was finished.

    python benchmarks/planning.py --out benchmarks/results/planning.json [--scenarios 4]     # 5 to 25 minutes each on two idle cores

A scenario is a network, a kind of device, a bundled workload and a target, drawn by a seed. The grid has every system that can run, with
4 and with 8 workers, and one worker alone; each with three learning rates, as its paper has it otherwise. A run of it is broken off when it
has cost 1.5 times what the best has by then, which changes nothing about the best. How long it would take if all runs went on to the
job's own end is estimated from some of them, drawn by the seed. The five best of the grid and the planner's first choice
are then run under five seeds that neither has seen; regret is the planner's median over the least of these medians, less 1. `--only N`
runs one scenario, and `--no-grid` asks only whether the bounds contain what fresh seeds give. Machines of the lab are calibrated before, by
`polyrhythm lab --hosts 8 --network NAME -- polyrhythm calibrate JOB --set NAME=VALUE --out DIR`, with the scenario's job and settings.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any

import torch

from polyrhythm.core import rng
from polyrhythm.core.records.metrics import parse_target
from polyrhythm.core.records.progress import ProgressLine
from polyrhythm.hardware.fleet import fleet
from polyrhythm.hardware.network import load
from polyrhythm.systems import SYSTEMS
from polyrhythm.tools.planner.answer import Choice
from polyrhythm.tools.planner.budget import Budget
from polyrhythm.tools.planner.candidate import ALONE, Candidate
from polyrhythm.tools.planner.findings import LEEWAY, Findings
from polyrhythm.tools.planner.measure_cache import MeasureCache
from polyrhythm.tools.planner.objective import Objective
from polyrhythm.tools.planner.planner import Planner
from polyrhythm.tools.planner.scenario import Scenario
from polyrhythm.tools.planner.search import Search
from polyrhythm.tools.planner.space import Space
from polyrhythm.tools.pools.pools import Done, Pool
from polyrhythm.tools.pools.run_pool import RunPool
from polyrhythm.workloads.load import load_workload

SEED = 29
NETWORKS = ("lan", "cloud", "home", "slow", "wan-3", "wan-11")
DEVICES = ("cpu-core", "laptop", "raspberry-pi-4", "t4")
JOBS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("digits-mlp", {}, "accuracy=0.95"),
    ("digits-cnn", {}, "accuracy=0.92"),
    ("chars-gpt", {"layers": 1, "width": 32, "heads": 2, "learning_rate": 0.008}, "bits=3.6"),
)
WORKERS = (1, 4, 8)
RATES = (0.5, 1.0, 2.0)
FRESH = (101, 102, 103, 104, 105)
SAMPLED, BEST, CORES = 8, 5, os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Drawn:
    """A scenario, by names."""

    network: str | Path
    device: str | Path
    job: str
    settings: dict[str, Any]
    target: str


def drawn(number: int, calibrated: Path | None = None) -> Drawn:
    """The scenario of that number; its job on machines that were calibrated, where there are such."""
    draw = rng.stream(SEED, "planning", number)
    job, settings, target = JOBS[draw.integers(len(JOBS))]
    network, device = NETWORKS[draw.integers(len(NETWORKS))], DEVICES[draw.integers(len(DEVICES))]
    return Drawn(network, device, job, settings, target) if calibrated is None else Drawn(calibrated, calibrated, job, settings, target)


def findings(one: Drawn) -> Findings:
    """What a search or a grid begins with."""
    target = parse_target(one.target)
    scenario = Scenario(one.job, load_workload(one.job), target, load(one.network), fleet(one.device), settings=one.settings)
    return Findings(scenario, Objective(), Space.of(scenario, tuple(SYSTEMS), WORKERS), MeasureCache(None))


def pool(done: Done) -> Pool:
    """Runs on all cores."""
    return RunPool(CORES, ProgressLine(None, 1), done)


def gridded(found: Findings) -> list[Candidate]:
    """All of the grid that can run."""
    rate, default = found.space.rate or ("", 0.0)
    every = [
        Candidate(system, workers, (), () if factor == 1.0 else ((rate, default * factor),))
        for factor in (1.0, *(each for each in RATES if each != 1.0))
        for workers in WORKERS
        for system in SYSTEMS
        if workers > 1 or system == ALONE.system
    ]
    return [each for each in every if not found.impossible(each)]


def grid(found: Findings, possible: list[Candidate]) -> list[Candidate]:
    """The best of it, the first first."""
    steps = {each: found.steps(each, found.samples) for each in possible}
    Search(found, pool, Budget(math.inf)).make(((each, 0, steps[each], LEEWAY * found.best) for each in possible), 1.0)
    return found.ranked()


def exhaustive(found: Findings, possible: list[Candidate]) -> float:
    """Seconds that all runs would take if none were broken off, from a sample of them."""
    sample = [possible[place] for place in rng.stream(SEED, "sample").permutation(len(possible))[:SAMPLED]]
    began = monotonic()
    Search(found, pool, Budget(math.inf)).make([(each, 0, found.steps(each, found.samples), math.inf) for each in sample], 1.0)
    return (monotonic() - began) * len(possible) / len(sample)


def medians(found: Findings, candidates: dict[Candidate, float]) -> dict[str, float]:
    """Of the time to the target under fresh seeds; infinite where most did not come there for three times the samples that are given."""
    wanted = [(each, seed, found.steps(each, 3 * samples), math.inf) for each, samples in candidates.items() for seed in FRESH]
    Search(found, pool, Budget(math.inf)).make(wanted, 1.0)
    return {each.name: median(found.trainings[each][seed].cost(found.objective, each.workers) for seed in FRESH) for each in candidates}


def candidate_of(choice: Choice) -> Candidate:
    """As it was searched for."""
    return Candidate(choice.system, choice.workers, tuple(choice.options.items()), tuple(choice.settings.items()))


def compared(one: Drawn, found: Findings) -> tuple[list[Candidate], dict[str, Any]]:
    """The best of the grid, and what it cost."""
    possible, began = gridded(found), monotonic()
    leading = grid(found, possible)[:BEST]
    took = monotonic() - began
    print(f"grid: {took:.0f} s", flush=True)
    return leading, {"grid_seconds": took, "grid_runs": found.runs, "exhaustive_seconds": exhaustive(findings(one), possible)}


def measured(one: Drawn, seconds: float, with_grid: bool) -> dict[str, Any]:
    """Plan it, run the grid, and compare."""
    planner = Planner(findings(one), pool, Budget(seconds))
    plan = planner.plan()
    found = findings(one)
    leading, cost = compared(one, found) if with_grid else ([], {})
    row: dict[str, Any] = {key: value.name if isinstance(value, Path) else value for key, value in asdict(one).items()}
    row |= {"search_seconds": plan.seconds, **cost}
    if plan.best is None:
        return row | {"chosen": None}
    chosen = candidate_of(plan.best)
    truth = medians(found, {each: found.needed(each) for each in leading} | {chosen: plan.best.samples})
    best, bounds = min(truth, key=truth.__getitem__), plan.best.seconds
    row |= {
        "chosen": chosen.name,
        "predicted": [bounds.low, bounds.middle, bounds.high],
        "chosen_seconds": truth[chosen.name],
        "contained": bounds.low <= truth[chosen.name] <= bounds.high,
    }
    return row | ({"best": best, "best_seconds": truth[best], "regret": truth[chosen.name] / truth[best] - 1} if with_grid else {})


def main() -> None:
    """Measure each scenario, and keep what is known after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--scenarios", type=int, default=4)
    parser.add_argument("--only", type=int)
    parser.add_argument("--calibrated", type=Path, metavar="DIR", help="machines that `polyrhythm calibrate` has measured")
    parser.add_argument("--budget", type=float, default=100.0)
    parser.add_argument("--no-grid", action="store_true", help="only whether the bounds contain what fresh seeds give")
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for number in range(given.scenarios) if given.only is None else [given.only]:
        rows.append({"number": number, **measured(drawn(number, given.calibrated), given.budget, not given.no_grid)})
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(rows, indent=1) + "\n")
        print(json.dumps(rows[-1]), flush=True)


if __name__ == "__main__":
    main()
