"""How far a plan by proxies is right about a model eight times the largest proxy, which is then trained in full.

    python benchmarks/proxy_ranking.py --out benchmarks/results/proxy_ranking.json [--case digits|gpt] [--seeds 5] [--jobs 1]

A network for digits or a GPT on characters, four proxies of it, six methods at four workers, in virtual time with real gradients. The
plan is made first, without a run at the true size. Then each method trains the model itself, with the settings of its printed command,
under seeds that the plan did not use. Fixed before the run: the rank correlation (Spearman) of predicted times and the medians of true
ones is 0.8 or more; each predicted time is within 25 % of the median of true ones; nine of ten is promised of the intervals, and eight of
ten or more of the runs lie in them.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy.stats import spearmanr
from torch import nn

import polyrhythm as pr
from polyrhythm.core.records.progress import board
from polyrhythm.core.training.run import Attempt
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.measured import TrainedRun
from polyrhythm.tools.planner.plan import PlanRequest
from polyrhythm.tools.planner.proxy.crossing import crossing
from polyrhythm.tools.planner.proxy.proxy_plan import ProxyChoice, ProxyPlan
from polyrhythm.tools.planner.proxy.proxy_request import ProxyPlanning, ProxyRequest
from polyrhythm.tools.planner.proxy.trial import Trial
from polyrhythm.tools.pools.pools import work
from polyrhythm.workloads.digits import digits

NETWORK, DEVICE, WORKERS = "slow", "raspberry-pi-4", 4
METHODS = ("allreduce", "sparknet", "diloco", "powersgd", "ssp", "gossipgrad")


def digits_mlp(worker: pr.Worker, width: int = 240, epochs: int = 40, learning_rate: float = 1e-3, batch_size: int = 2) -> None:
    """Two hidden layers on the digits of scikit-learn, by Adam; the loss is that on the digits of other writers."""
    training, test = digits()
    x, y = test.tensors
    model: Any = nn.Sequential(
        nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
    )  # fmt: skip
    model, optimizer = worker.attach(model, torch.optim.Adam(model.parameters(), lr=learning_rate))
    worker.evaluate(lambda found: {"loss": F.cross_entropy(found(x), y).item()})
    for _ in worker.epochs(epochs):
        for a, b in worker.batches(training, batch_size=batch_size):
            optimizer.zero_grad()
            F.cross_entropy(model(a), b).backward()
            optimizer.step()


@dataclass(frozen=True, slots=True)
class Case:
    """A job with the true size among its settings, the family, the target, and the seconds of the plan."""

    job: str
    train: Callable[..., object]
    settings: Mapping[str, Any]
    sizes: tuple[str, ...]
    target: str
    budget: float


GPT = {"width": 100, "layers": 2, "heads": 2, "context": 32, "batch_size": 8, "samples": 40_000}
CASES = {
    "digits": Case("digits_mlp", digits_mlp, {"width": 240, "batch_size": 2}, ("width=16,24,40,64",), "loss=0.5", 2400.0),
    "gpt": Case("chars-gpt", pr.load_workload("chars-gpt"), GPT, ("width=12,16,24,32",), "bits=3.1", 1800.0),
}
RANKS, TIME, COVER = 0.8, 0.25, 0.8
"""The thresholds."""
FIRST_SEED = 200
_LONGER = 2.5
"""A full run is so many times as long as the plan expects at most."""


def request(case: Case, jobs: int, cache: Path | None) -> PlanRequest:
    """The request for the plan."""
    return PlanRequest(
        case.target, NETWORK, DEVICE, (WORKERS,), systems=METHODS, settings=case.settings, budget=case.budget, jobs=jobs, cache=cache
    )


def predicted(case: Case, whole: PlanRequest) -> tuple[ProxyPlan, float]:
    """The plan, and the seconds that it took."""
    began, facts = time.monotonic(), {"file": Path(__file__).read_text()}
    with board(1, wanted=True) as line:
        wanted, invocation = ProxyRequest(whole, case.sizes), whole.invocation(case.job)
        plan = ProxyPlanning(wanted, case.train, case.job, whole.pool_with(line), invocation, facts, line.remark).plan()
    assert plan.proxy is not None
    print(pr.plan_text(plan), flush=True)
    return plan.proxy, time.monotonic() - began


def trained(case: Case, whole: PlanRequest, choices: list[ProxyChoice], seeds: int) -> dict[str, list[float]]:
    """Virtual seconds to the target of full runs, by method; infinite where one did not come there."""
    scenario, found = whole.scenario(case.train, case.job, {}), {each.name: [math.inf] * seeds for each in choices}
    batch = case.settings["batch_size"]

    def note(choice: ProxyChoice, place: int, steps: int, attempt: Attempt) -> None:
        run = TrainedRun.of(attempt, scenario.target, steps)
        samples = crossing(run.curve, scenario.target)
        if samples is not None:
            found[choice.name][place] = float(
                np.interp(samples, [each.samples for each in run.curve], [each.seconds for each in run.curve])
            )
        print(f"{choice.name}, seed {FIRST_SEED + place}: {found[choice.name][place]:.3g} s, {samples} samples {run.error}", flush=True)

    def tasks() -> Any:
        for place in range(seeds):
            for choice in choices:
                steps = math.ceil(_LONGER * choice.samples.high / (choice.workers * batch))
                task = Trial(scenario, candidate_of(choice), FIRST_SEED + place, steps, math.inf)
                yield task, lambda attempt, choice=choice, place=place, steps=steps: note(choice, place, steps, attempt)

    with board(1, wanted=False) as line:
        work(whole.pool_with(line), tasks())
    return found


def candidate_of(choice: ProxyChoice) -> Candidate:
    """What its command runs."""
    return Candidate(choice.system, choice.workers, tuple(choice.options.items()), tuple(choice.settings.items()))


def judged(choices: list[ProxyChoice], found: dict[str, list[float]]) -> dict[str, Any]:
    """The figures, and whether each is within its threshold."""
    together = [each for each in choices if each.workers > 1]
    truths = {each.name: median(found[each.name]) for each in choices}
    errors = {each.name: each.seconds.middle / truths[each.name] - 1 for each in choices}
    ranks = float(spearmanr([each.seconds.middle for each in together], [truths[each.name] for each in together]).statistic)
    inside = [each.seconds.low <= seconds <= each.seconds.high for each in together for seconds in found[each.name]]
    cover = sum(inside) / len(inside)
    worst = max(abs(errors[each.name]) for each in together)
    return {
        "truths": truths,
        "errors": errors,
        "rank correlation": ranks,
        "worst error": worst,
        "median error": median(abs(errors[each.name]) for each in together),
        "inside": cover,
        "reproduced": {"ranking": ranks >= RANKS, "time": worst <= TIME, "intervals": cover >= COVER},
    }


def main() -> None:
    """Plan, train in full, and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=list(CASES), default="digits")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cache", type=Path, default=None)
    given = parser.parse_args()
    torch.set_num_threads(1)
    case = CASES[given.case]
    whole = request(case, given.jobs, given.cache)
    load = os.getloadavg()
    plan, seconds = predicted(case, whole)
    began = time.monotonic()
    found = trained(case, whole, plan.choices, given.seeds)
    result = judged(plan.choices, found)
    rows = [
        f"| {each.name} | {each.seconds.middle:.3g} ({each.seconds.low:.3g} to {each.seconds.high:.3g}) | "
        f"{result['truths'][each.name]:.3g} ({', '.join(f'{one:.3g}' for one in found[each.name])}) | {result['errors'][each.name]:+.0%} |"
        for each in plan.choices
    ]
    print("| method | predicted, s | full runs, s | error |\n|---|---|---|---|", *rows, sep="\n")
    print({name: value for name, value in result.items() if name not in ("truths", "errors")})
    record = {
        "case": given.case,
        "target": case.target,
        "settings": dict(case.settings),
        "sizes": case.sizes,
        "parameters": [each.parameters for each in plan.sizes] + [plan.parameters],
        "plan seconds": seconds,
        "full runs, seconds": time.monotonic() - began,
        "load": [load, os.getloadavg()],
        "predicted": {each.name: [each.seconds.low, each.seconds.middle, each.seconds.high] for each in plan.choices},
        "samples": {each.name: [each.samples.low, each.samples.middle, each.samples.high] for each in plan.choices},
        "settings of commands": {each.name: each.settings for each in plan.choices},
        "full runs": found,
        **result,
    }
    given.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
