"""A step of a flat ring and of hierarchical exchanges between two sites, for real and as the simulator predicts it.

    polyrhythm lab --hosts 4 --network benchmarks/networks/two_sites.json -- python benchmarks/sites.py --system allreduce
    python benchmarks/sites.py --system allreduce --predict benchmarks/networks/two_sites.json

The first runs once in each process, under any launcher that sets RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and POLYRHYTHM_SITE; worker 0
prints one JSON object. The model is one matrix of `--megabytes`, so that steps are all exchange. Of `--steps` the first quarter warms up
connections.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from typing import Any

import torch

import polyrhythm as pr

STRATEGIES = {
    "allreduce": lambda: pr.systems.find("allreduce"),
    "hierarchical": lambda: pr.systems.find("hierarchical"),
    "stripes": lambda: pr.systems.find("hierarchical", stripes=True),
}
WORKERS = 4


def train(worker: Any, megabytes: float, steps: int) -> list[float]:
    """The seconds of each step."""
    side = int((megabytes * 1e6 / 4) ** 0.5)
    model = torch.nn.Linear(side, side, bias=False)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.01))
    x, seconds = torch.randn(1, side), []
    for _ in range(steps):
        worker.count(1)
        optimizer.zero_grad()
        model(x).square().mean().backward()
        began = time.perf_counter()
        optimizer.step()
        seconds.append(time.perf_counter() - began)
    return seconds


def main() -> None:
    """Run, or predict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", choices=STRATEGIES, required=True)
    parser.add_argument("--megabytes", type=float, default=1.0)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--predict", metavar="NETWORK")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.predict:
        runs = [
            pr.simulate_timing(
                lambda worker: train(worker, options.megabytes, 4),
                workers=WORKERS,
                strategy=STRATEGIES[options.system](),
                steps=steps,
                on=pr.Simulator(network=options.predict, devices=pr.hardware.Profile("no time", (0.0,))),
            )
            for steps in (4, 8)
        ]
        few, many = (run.summary.virtual_seconds for run in runs)
        print(json.dumps({"system": options.system, "predicted_seconds": (many - few) / 4}))
        return
    worker = pr.join(STRATEGIES[options.system]())
    seconds = train(worker, options.megabytes, options.steps)
    worker.finish()
    if os.environ["RANK"] == "0":
        steady = seconds[options.steps // 4 :]
        told = {"system": options.system, "seconds": statistics.median(steady), "least": min(steady), "most": max(steady)}
        print(json.dumps(told))


if __name__ == "__main__":
    main()
