"""What the planner promises for a user's own job, and what its printed command keeps under seeds that the search has not seen.

    python benchmarks/promises.py --out benchmarks/results/promises.json [--jobs lm,bandit] [--networks dsl,vpn]

Each job of own_jobs/ is planned for each network of own_jobs/machines/. The command of the first choice that is printed for virtual time is
executed as it is, but for five other seeds; so is that of one machine alone as the planner has tuned it, and one machine alone as a grid
has: rates and batches of GRID under one seed, the best under the five. Everything is in virtual time. Targets, seeds, grid and budget were
fixed before the first run.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

import polyrhythm as pr
from polyrhythm.core.records.metrics import curve_of, parse_target
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.tools.cli.record import read

HERE = Path(__file__).parent / "own_jobs"
SEEDS = (901, 902, 903, 904, 905)
TUNING_SEED = 801
BUDGET = "60s"
GRID = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Factors of the job's own rate; the batch is its own, and twice that."""


@dataclass(frozen=True, slots=True)
class Job:
    """Its target, how its rate and its batch are called, and their defaults."""

    target: str
    rate: tuple[str, float]
    batch: tuple[str, int]


JOBS = {
    "lm": Job("val_loss=2.7", ("learning_rate", 3e-3), ("batch_size", 8)),
    "contrast": Job("recall_at_1=0.42", ("lr", 0.1), ("batch_size", 32)),
    "bandit": Job("mean_reward=0.75", ("lr", 0.02), ("batch_size", 16)),
    "cosine": Job("top1>=0.9", ("lr", 0.1), ("batch_size", 16)),
    "warmup": Job("f1=0.9", ("lr", 0.01), ("batch_size", 16)),
    "rmse": Job("rmse=0.5", ("learning_rate", 0.05), ("batch", 16)),
    "factors": Job("test_mae=0.25", ("lr", 0.02), ("batch_size", 32)),
    "auto": Job("reconstruction_error=0.03", ("lr", 2e-3), ("batch_size", 16)),
}
NETWORKS = {"dsl": "phone", "campus": "slowbox", "vpn": "slowbox"}
"""The machines that each has."""


def polyrhythm(*words: str) -> str:
    """What a command prints. Raises CalledProcessError if it fails."""
    done = subprocess.run([sys.executable, "-m", "polyrhythm", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"polyrhythm {shlex.join(words)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def planned(job: str, network: str) -> dict[str, Any]:
    """The plan, as `--json` prints it."""
    asked = [str(HERE / f"{job}.py"), "--to", JOBS[job].target, *machines(network)]
    plan: dict[str, Any] = json.loads(polyrhythm("plan", *asked, "--workers", "2..8", "--budget", BUDGET, "--json"))
    return plan


def machines(network: str) -> list[str]:
    """The options that describe where the job is to run."""
    folder = HERE / "machines"
    return ["--network", str(folder / f"{network}.json"), "--device", str(folder / f"{NETWORKS[network]}.json")]


def executed(command: str, target: str, seeds: Sequence[int]) -> list[float]:
    """Virtual seconds to the target under each of the seeds; infinite where a run did not come to it."""
    words = shlex.split(command)[1:]
    if "--seed" in words:
        at = words.index("--seed")
        del words[at : at + 2]
    with tempfile.TemporaryDirectory() as out:
        polyrhythm(*words, "--seeds", ",".join(map(str, seeds)), "--jobs", "2", "--out", out, "--quiet")
        return [reached(outcome, target) for outcome in read([Path(out)]).outcomes]


def alone_by_grid(job: str, device: str) -> dict[str, Any]:
    """One machine with the best rate and batch of the grid."""
    tried, known = {}, JOBS[job]
    for factor in GRID:
        for times in (1, 2):
            settings = {known.rate[0]: known.rate[1] * factor, known.batch[0]: known.batch[1] * times}
            tried[json.dumps(settings)] = _alone(job, device, settings, TUNING_SEED)
    best = min(tried, key=lambda each: tried[each])
    return {"settings": best, "seconds": [_alone(job, device, json.loads(best), seed) for seed in SEEDS], "tried": tried}


def _alone(job: str, device: str, settings: dict[str, Any], seed: int) -> float:
    """Virtual seconds to the target, infinite where a run does not come to it."""
    on = pr.Simulator("lan", devices=HERE / "machines" / f"{device}.json")
    try:
        outcome = pr.run(pr.load_workload(str(HERE / f"{job}.py"), settings), workers=1, strategy="single", on=on, seed=seed).outcome
    except pr.PolyrhythmError:  # one that diverges
        return math.inf
    return reached(outcome, JOBS[job].target)


def reached(outcome: Outcome, target: str) -> float:
    """When a run came to the target, infinite if it did not."""
    goal = parse_target(target)
    return min((each.time for each in curve_of(outcome, goal.metric) if goal.met_by(each.metrics[goal.metric])), default=math.inf)


def kept(job: str, network: str, grid: dict[str, Any]) -> dict[str, Any]:
    """What was promised and what came of it."""
    plan = planned(job, network)
    best, alone = plan["choices"][0], plan.get("alone")
    row: dict[str, Any] = {"job": job, "network": network, "choice": best["name"], "grid": grid["seconds"]}
    row["searched"] = f"{best['reached']} of {best['seeds']} seeds"
    row["promised"] = [best["seconds"][key] for key in ("low", "middle", "high")]
    row["fresh"] = executed(best["rehearsal"], JOBS[job].target, SEEDS)
    same = alone is None or best["system"] == "single"
    row["alone"] = row["fresh"] if same else executed(alone["rehearsal"], JOBS[job].target, SEEDS)
    row["within"] = sum(row["promised"][0] <= each <= row["promised"][2] for each in row["fresh"])
    row["not_later"] = sum(each <= row["promised"][2] for each in row["fresh"])
    row["against_alone"] = median(row["fresh"]) / min(median(row["alone"]), median(row["grid"]))
    return row


def _finite(value: Any) -> Any:
    """With null for what is infinite, which JSON has no number for."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    return None if value == math.inf else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    sys.argv = sys.argv[:1]  # which the jobs read
    torch.set_num_threads(1)
    rows, grids = [], {}
    for job in args.jobs.split(","):
        for network in args.networks.split(","):
            device = NETWORKS[network]
            if (job, device) not in grids:
                grids[job, device] = alone_by_grid(job, device)
                print(job, device, grids[job, device], flush=True)
            rows.append(kept(job, network, grids[job, device]))
            print(json.dumps(rows[-1]), flush=True)
            if args.out is not None:
                args.out.write_text(json.dumps(_finite({"budget": BUDGET, "seeds": SEEDS, "rows": rows}), indent=1) + "\n")


if __name__ == "__main__":
    main()
