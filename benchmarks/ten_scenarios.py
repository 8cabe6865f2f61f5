"""Ten scenarios drawn by a seed after the search was frozen: regret, coverage of bounds, and what the search costs beside the grid.

    python benchmarks/ten_scenarios.py --out benchmarks/results/ten_scenarios.json [--only N] [--budget 10] [--grid 24]

Models are of four kinds: an MLP and a CNN on digits, a small GPT, and a factorization of ratings. In every second scenario the machines
are mixed or rented: two or three kinds of device in one run, with prices and interruptions, and the objective is money in some. Budgets
are seconds of processor time over two cores (`ProcessorTime`), so that others who use the machine change little. The exhaustive grid
(every system with 4 and 8 workers, one worker alone, three rates) is reduced to `--grid` runs that the seed draws, and one worker alone
with each rate; what the whole would cost is estimated from these. The planner has two hundredths of that, and in a second plan `--budget`
seconds, a tenth of what it took in planning.py. The three best of the reduced grid, both first choices and that of a third plan with
`--longest` seconds run under five seeds that none has seen; regret is a choice's median cost over the least median of all, less 1, and
bounds are judged by each of these seeds of the choice.

With `--old` the scenarios are the first four of planning.py (the other two need machines of the lab), and regret is against the best of the
whole grid that is recorded in results/planning.json.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import planning
import torch
from planning import FRESH, JOBS, NETWORKS, WORKERS, gridded, pool

from polyrhythm.core import rng
from polyrhythm.core.records.metrics import parse_target
from polyrhythm.hardware.devices import DEVICES
from polyrhythm.hardware.fleet import Fleet
from polyrhythm.hardware.machine_terms import MachineTerms
from polyrhythm.hardware.network import load
from polyrhythm.systems import SYSTEMS
from polyrhythm.tools.planner.answer import Choice
from polyrhythm.tools.planner.budget import Budget
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.findings import LEEWAY, Findings
from polyrhythm.tools.planner.measure_cache import MeasureCache
from polyrhythm.tools.planner.objective import Objective, Prices
from polyrhythm.tools.planner.planner import Planner
from polyrhythm.tools.planner.scenario import Scenario
from polyrhythm.tools.planner.search import Search
from polyrhythm.tools.planner.space import Space
from polyrhythm.workloads.load import load_workload

SEED = 43
SCENARIOS, OLD, BEST, CORES = 10, 4, 3, 2
PART = 0.02
"""The search has this part of the time of the whole grid."""
KINDS = (*JOBS, ("factors", {}, "test_mae=0.25"))
DEVICE_NAMES = ("cpu-core", "laptop", "raspberry-pi-4", "t4")
HOURLY = {"cpu-core": 0.04, "laptop": 0.02, "raspberry-pi-4": 0.01, "t4": 0.35}
"""The price of an hour of each device, as rented machines of such speeds cost about."""
NEVER = 1e18


class ProcessorTime:
    """A clock of the processor time of this process and its ended children, over the cores."""

    def __call__(self) -> float:
        """Seconds."""
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (process_time() + children.ru_utime + children.ru_stime) / CORES

    def budget(self, seconds: float) -> Budget:
        """So many seconds of it; no run is broken off by the clock of the day."""
        return Budget(seconds, self, lambda: NEVER)


@dataclass(frozen=True, slots=True)
class Situation:
    """A scenario by names: several `devices` in one run, on which machines cost so much an hour where it is `rented`."""

    network: str
    devices: tuple[str, ...]
    job: str
    settings: dict[str, Any]
    target: str
    rented: bool

    @property
    def objective(self) -> Objective:
        """Money where machines are rented, else time."""
        return Objective("money", Prices(), priced=True) if self.rented else Objective()


def situation(number: int) -> Situation:
    """The scenario of that number."""
    draw = rng.stream(SEED, "ten scenarios", number)
    job, settings, target = KINDS[number % len(KINDS)]
    mixed = number % 2 == 1
    kinds = draw.permutation(len(DEVICE_NAMES))[: int(draw.integers(2, 4)) if mixed else 1]
    return Situation(
        NETWORKS[draw.integers(len(NETWORKS))],
        tuple(DEVICE_NAMES[kind] for kind in kinds),
        job,
        settings,
        target,
        mixed and bool(draw.integers(2)),
    )


def job_of(name: str) -> Any:
    """A bundled workload, or one of `own_jobs`."""
    file = Path(__file__).parent / "own_jobs" / f"{name}.py"
    if not file.is_file():
        return load_workload(name)
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.train


def findings(one: Situation) -> Findings:
    """What a search or a grid begins with."""
    terms = tuple(MachineTerms(worker_hour=HOURLY[name], interruptions=0.2) for name in one.devices) if one.rented else ()
    devices = Fleet(tuple(DEVICES[name] for name in one.devices), terms=terms)
    scenario = Scenario(one.job, job_of(one.job), parse_target(one.target), load(one.network), devices, settings=one.settings)
    return Findings(scenario, one.objective, Space.of(scenario, tuple(SYSTEMS), WORKERS), MeasureCache(None))


def reduced(found: Findings, count: int) -> list[Candidate]:
    """So many of the grid, drawn by the seed, after one worker alone with each rate."""
    every = gridded(found)
    alone = [each for each in every if each.is_alone]
    others = [each for each in every if not each.is_alone]
    return [*alone, *(others[place] for place in rng.stream(SEED, "grid").permutation(len(others))[:count])]


def costs(found: Findings, candidates: dict[Candidate, float]) -> dict[Candidate, list[float]]:
    """The cost of each under fresh seeds; infinite where it did not come to the target for three times the samples that are given."""
    wanted = [(each, seed, found.steps(each, 3 * samples), math.inf) for each, samples in candidates.items() for seed in FRESH]
    Search(found, pool, ProcessorTime().budget(NEVER)).make(wanted, 1.0)
    return {each: [found.trainings[each][seed].cost(found.objective_of(each), each.workers) for seed in FRESH] for each in candidates}


def planned(one: Situation, seconds: float) -> tuple[dict[str, Any], Choice | None]:
    """A plan within so many seconds: what is told of it, and its first choice."""
    clock = ProcessorTime()
    planner = Planner(findings(one), pool, clock.budget(seconds), at_once=CORES)
    began = clock()
    plan = planner.plan()
    row = {"budget": seconds, "seconds": clock() - began, "runs": plan.runs, "ended": plan.ended, "probability": plan.probability}
    return row, plan.best


def measured(number: int, budget: float, longest: float, count: int) -> dict[str, Any]:
    """Run the reduced grid, plan it three times, and compare."""
    one, clock = situation(number), ProcessorTime()
    row: dict[str, Any] = {"number": number, "network": one.network, "devices": one.devices, "job": one.job, "rented": one.rented}
    found, began = findings(one), clock()
    some = reduced(found, count)
    search = Search(found, pool, clock.budget(NEVER))
    search.make(((each, 0, found.steps(each, found.samples), LEEWAY * found.best) for each in some), 1.0)
    seconds, whole = clock() - began, len(gridded(found))
    row |= {"grid_seconds": seconds, "grid_runs": len(some), "grid_whole": whole}
    plans = {
        name: planned(one, limit) for name, limit in (("part", PART * seconds / len(some) * whole), ("short", budget), ("long", longest))
    }
    leading: Sequence[Candidate] = found.ranked()[:BEST]
    tried = {each: found.needed(each) for each in leading}
    tried |= {choice.candidate: choice.samples for _, choice in plans.values() if choice is not None}
    truth = costs(found, tried)
    least = min(truth, key=lambda each: median(truth[each]))
    row |= {"best": least.name, "best_costs": truth[least], "costs": {each.name: truth[each] for each in truth}}
    for name, (told, choice) in plans.items():
        row[name] = told | ({"chosen": None} if choice is None else judged(found, choice, truth, median(truth[least])))
    return row


def judged(found: Findings, choice: Choice, truth: dict[Candidate, list[float]], least: float) -> dict[str, Any]:
    """The regret of a choice where the best has the `least` median cost, and how many seeds came to the target within its bounds."""
    chosen, bounds = choice.candidate, choice.seconds
    ends = [found.trainings[chosen][seed].end for seed in FRESH]
    return {
        "chosen": chosen.name,
        "predicted": [bounds.low, bounds.middle, bounds.high],
        "regret": median(truth[chosen]) / least - 1 if least else 0.0,
        "inside": sum(end is not None and bounds.low <= end.seconds <= bounds.high for end in ends),
        "of": len(ends),
    }


def beside_known(number: int, seconds: float) -> dict[str, Any]:
    """The plan of a scenario of planning.py beside the best of the grid that was measured then, under the same fresh seeds."""
    known = json.loads((Path(__file__).parent / "results" / "planning.json").read_text())[number]
    one, clock = planning.drawn(number), ProcessorTime()
    planner = Planner(planning.findings(one), pool, clock.budget(seconds), at_once=CORES)
    began = clock()
    plan = planner.plan()
    row: dict[str, Any] = {"old": number, "network": known["network"], "device": known["device"], "job": one.job}
    row |= {
        "search_seconds": clock() - began,
        "search_runs": plan.runs,
        "ended": plan.ended,
        "search_seconds_before": known["search_seconds"],
    }
    if plan.best is None:
        return row | {"chosen": None}
    chosen, found, bounds = plan.best.candidate, planning.findings(one), plan.best.seconds
    [truth] = costs(found, {chosen: plan.best.samples}).values()
    return row | {
        "chosen": chosen.name,
        "probability": plan.probability,
        "predicted": [bounds.low, bounds.middle, bounds.high],
        "costs": truth,
        "best": known["best"],
        "best_seconds": known["best_seconds"],
        "regret": median(truth) / known["best_seconds"] - 1,
        "inside": sum(bounds.low <= each <= bounds.high for each in truth),
        "of": len(truth),
    }


def main() -> None:
    """Measure each scenario, and keep what is known after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", type=int, nargs="*")
    parser.add_argument("--budget", type=float, default=10.0, help="seconds of processor time over two cores")
    parser.add_argument("--longest", type=float, default=100.0, help="seconds of the plan that both are compared with")
    parser.add_argument("--grid", type=int, default=24, help="runs of the grid, of some hundreds")
    parser.add_argument("--old", action="store_true", help="the scenarios of planning.py, beside the best of their grids")
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = json.loads(given.out.read_text()) if given.out.is_file() else []
    for number in range(OLD if given.old else SCENARIOS) if given.only is None else given.only:
        rows.append(beside_known(number, given.budget) if given.old else measured(number, given.budget, given.longest, given.grid))
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(rows, indent=1) + "\n")
        print(json.dumps(rows[-1]), flush=True)


if __name__ == "__main__":
    main()
