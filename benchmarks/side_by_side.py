"""How much faster a run in virtual time is with gradients side by side than one by one.

    python benchmarks/side_by_side.py --out benchmarks/results/side_by_side.json [--rounds 5] [--only gpt]

Each case is run one by one, side by side on one thread, and side by side on all cores, in alternation: wall seconds, and CPU seconds of the
process. Ratios are within a round; medians and the range over the rounds are printed, with the load of the machine before each round.
A first run of each, which is not counted, loads what is loaded once. Weights must be equal within rounding, and virtual times equal.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import torch

import polyrhythm as pr
from polyrhythm.core.simulator.gradients.modes import GradientMode

CASES: dict[str, tuple[str, dict[str, str], str, int, str]] = {
    "gpt": (
        "chars-gpt",
        {"layers": "2", "width": "64", "heads": "2", "learning_rate": "0.012", "samples": "2560", "batch_size": "8"},
        "allreduce",
        16,
        "lan",
    ),
    "gpt-ssp": (
        "chars-gpt",
        {"layers": "2", "width": "64", "heads": "2", "learning_rate": "0.012", "samples": "2560", "batch_size": "8"},
        "ssp",
        16,
        "slow",
    ),
    "gpt-small": ("chars-gpt", {"layers": "1", "width": "32", "heads": "2", "samples": "2560"}, "ssp", 8, "slow"),
    "cnn": ("digits-cnn", {"epochs": "4"}, "ssp", 8, "slow"),
    "mlp": ("digits-mlp", {"epochs": "2"}, "ssp", 8, "slow"),
}
"""Job, settings, system, workers and network; `gpt` is the demo's."""
ROUNDING = 0.05
"""Of the largest weight: rounding grows over the steps of a training."""


def made(case: str, gradients: GradientMode) -> tuple[float, float, pr.Run]:
    """Wall seconds, CPU seconds and the run."""
    job, settings, system, workers, network = CASES[case]
    train = pr.load_workload(job, settings)
    on = pr.Simulator(network=network, devices="raspberry-pi-4", gradients=gradients)
    wall, cpu = time.perf_counter(), time.process_time()
    run = pr.run(train, workers=workers, strategy=system, on=on, seed=0)
    return time.perf_counter() - wall, time.process_time() - cpu, run


def compared(case: str, rounds: int) -> dict[str, Any]:
    """All rounds of one case."""
    modes = {"one by one": pr.OneByOne(), "one thread": pr.SideBySide(threads=1), "all cores": pr.SideBySide()}
    runs = {name: made(case, mode)[2] for name, mode in modes.items()}
    exact = runs["one by one"]
    for run in runs.values():
        assert run.summary.virtual_seconds == exact.summary.virtual_seconds, "virtual time differs"
        for name, weights in exact.outcome.weights.items():
            assert (run.outcome.weights[name] - weights).abs().max() <= ROUNDING * weights.abs().max() + 1e-6, name
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in modes}
    loads = []
    for _ in range(rounds):
        loads.append(os.getloadavg()[0])
        for name, mode in modes.items():
            found[name].append(made(case, mode)[:2])
    row: dict[str, Any] = {"case": case, "loads": loads, "said": runs["all cores"].outcome.settings["gradients"]}
    for name, times in found.items():
        row[name] = {"wall": [wall for wall, _ in times], "cpu": [cpu for _, cpu in times]}
        for kind, place in (("wall", 0), ("cpu", 1)):
            ratios = sorted(one[place] / other[place] for one, other in zip(found["one by one"], times, strict=True))
            row[name][f"gain in {kind}"] = [ratios[0], statistics.median(ratios), ratios[-1]]
    return row


def main() -> None:
    """Measure, print, and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=CASES)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for case in CASES if given.only is None else [given.only]:
        row = compared(case, given.rounds)
        rows.append(row)
        for name in ("one thread", "all cores"):
            shown = {kind: " to ".join(f"{each:.2f}" for each in row[name][f"gain in {kind}"]) for kind in ("wall", "cpu")}
            print(f"{case:10} {name:10} wall × {shown['wall']}, CPU × {shown['cpu']}", flush=True)
        print(f"{'':10} {row['said']}; load {min(row['loads']):.1f} to {max(row['loads']):.1f}", flush=True)
        if given.out is not None:
            given.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
