"""Sixteen Raspberry Pis beside one, in virtual time: seconds to 3.6 bits of `chars-gpt`, with a batch of 256 of all workers together.

One Pi also has a batch of 16, as it would have where nothing asks for 256.

    python benchmarks/pis.py [--seeds 0 1 2] [--rate 0.004] [--network slow] [--json FILE]

Gradients are real and times virtual, so that other processes on this machine change nothing. A run takes two to four minutes. The target,
the batch and the rate are the same for all; the first evaluation that reaches the target counts.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

import torch

import polyrhythm as pr
from polyrhythm.core.records.metrics import Target
from polyrhythm.workloads.load import load_workload

TARGET = Target("bits", 3.6)
BATCH = 256
PIS = 16


WAYS = [
    pr.Strategy(name="AllReduce(Direct())", topology=pr.topology.AllReduce(pr.topology.Direct())),
    pr.Strategy(name="LocalSteps(4)", consistency=pr.consistency.LocalSteps(4), topology=pr.topology.AllReduce(pr.topology.Direct())),
    pr.Strategy(name="LocalSteps(8)", consistency=pr.consistency.LocalSteps(8), topology=pr.topology.AllReduce(pr.topology.Direct())),
    pr.Strategy(
        name="LocalSteps(3), bfloat16",
        consistency=pr.consistency.LocalSteps(3),
        topology=pr.topology.AllReduce(pr.topology.Direct()),
        codec=pr.codec.Cast(torch.bfloat16),
    ),
]


ALL: list[tuple[str, pr.Strategy | str, int, int]] = [
    ("one Pi", "single", 1, BATCH),
    ("one Pi, batches of 16", "single", 1, 16),
    *((str(way.name), way, PIS, BATCH) for way in WAYS),
]


def seconds(strategy: pr.Strategy | str, workers: int, batch: int, seed: int, given: argparse.Namespace) -> float:
    """Virtual seconds until the target was reached; infinite where it was not."""
    job = load_workload("chars-gpt", {"learning_rate": str(given.rate), "batch_size": str(batch // workers)})
    on = pr.Simulator(network=given.network, devices="raspberry-pi-4", seed=seed)
    found = TARGET.first_reached(pr.run(job, workers=workers, strategy=strategy, on=on, seed=seed).outcome)
    return float("inf") if found is None else found.time


def main() -> None:
    """Print each run, and the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rate", type=float, default=0.004)
    parser.add_argument("--network", default="slow")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    times: dict[str, list[float]] = {}
    for seed in given.seeds:
        for name, strategy, workers, batch in ALL:
            times.setdefault(name, []).append(seconds(strategy, workers, batch, seed, given))
            print(f"seed {seed}, {name}: {times[name][-1]:.1f} s", flush=True)
            if given.json:
                given.json.write_text(json.dumps({"rate": given.rate, "network": given.network, "seconds": times}, indent=1) + "\n")
    print("| | seconds to 3.6 bits (least to greatest) | times as fast as one Pi |\n|---|---|---|")
    alone = statistics.median(times["one Pi"])
    for name, each in times.items():
        middle = statistics.median(each)
        print(f"| {name} | {middle:.1f} ({min(each):.1f} to {max(each):.1f}) | {alone / middle:.1f} |")


if __name__ == "__main__":
    main()
