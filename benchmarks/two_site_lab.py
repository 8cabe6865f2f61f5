"""Ways to divide a small GPT between two offices, in the lab (root): seconds of a step on real lines, beside those in virtual time.

    python benchmarks/two_site_lab.py --json benchmarks/results/two_site_lab.json

Four hosts, two in each office, whose lines are those of `two_site_layouts.py`; each host is a process of one thread, and all share this
machine's cores. How fast they compute is measured once, by the all-reduce on loopback, and used for all ways. Ways, steps and the
target, 20 %, were fixed before the first run. What a way computes does not depend on where it runs, so that the order of the seconds to a
loss is that of a step times the steps that `two_site_layouts.py` counts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
from two_site_layouts import BATCH, CONTEXT, NETWORK, SIZE, WAYS, loss

import polyrhythm as pr
from polyrhythm.core.kernel.events import Reported
from polyrhythm.hardware import network
from polyrhythm.workloads.chars import corpus, windows

CHOSEN = ("FSDP over all", "pipeline over the line", "4-bit activations", "FSDP inside, diloco between")
HOSTS, WARM_UP, STEPS, CALIBRATED = 4, 3, 20, "all-reduce over all"


def train(worker: pr.Worker, way: str, seconds: list[float]) -> None:
    """Steps of one way; `seconds` are the times at which they ended, on a real clock."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = WAYS[way][0](SIZE)
    optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    model, optimizer = worker.attach(model, optimizer, loss=loss)
    data = windows(corpus().training, CONTEXT, BATCH * (WARM_UP + STEPS))
    for x, y in worker.batches(data, batch_size=BATCH // worker.replicas):
        optimizer.zero_grad()
        found = worker.train_step(x, y)
        optimizer.step()
        worker.report(loss=found)
        seconds.append(time.perf_counter())


def of_a_step(times: list[float]) -> float:
    """The mean, so that exchanges of every tenth step count."""
    return (times[-1] - times[WARM_UP - 1]) / (len(times) - WARM_UP)


def host(way: str) -> None:
    """One host of the lab; worker 0 prints."""
    options = dict(WAYS[way][1])
    seconds: list[float] = []
    worker = pr.join(options.pop("strategy"), **options)
    train(worker, way, seconds)
    worker.leave()
    if worker.is_first:
        print(json.dumps(of_a_step(seconds)), flush=True)


def predicted(way: str, flops: float, where: Any) -> float:
    """The same in virtual time."""
    run = pr.run(partial(train, way=way, seconds=[]), on=pr.Simulator(network=where, devices=pr.Device("here", flops)), **WAYS[way][1])
    return of_a_step([event.time for event in run.outcome.events if isinstance(event, Reported) and event.actor == "worker/0"])


def measured(way: str, *lab: str) -> float:
    """The seconds that worker 0 printed."""
    command = [*lab, sys.executable, "-W", "ignore", __file__, "--host", way]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return float(done.stdout.strip().splitlines()[-1])


def calibrated() -> float:
    """The operations a second of each of four processes here: as many as explain a step of the all-reduce on a fast network."""
    times: list[float] = []
    options = dict(WAYS[CALIBRATED][1])
    run = pr.run(partial(train, way=CALIBRATED, seconds=times), on=pr.Processes(), **options)
    real = of_a_step([event.time for event in run.outcome.events if isinstance(event, Reported) and event.actor == "worker/0"])
    guess = 1e10
    return guess * predicted(CALIBRATED, guess, "lan") / real


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", choices=WAYS)
    parser.add_argument("--ways", nargs="+", default=CHOSEN, choices=WAYS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.host:
        host(options.host)
        return
    flops = calibrated()
    print(f"{flops:.3g} operations a second for each of {HOSTS} hosts", flush=True)
    lab = (sys.executable, "-m", "polyrhythm", "lab", "--hosts", str(HOSTS), "--network", str(NETWORK), "--quiet", "--")
    rows = []
    for way in options.ways:
        expected = predicted(way, flops, network.load(str(NETWORK)))
        found = [measured(way, *lab) for _ in range(options.rounds)]
        median = statistics.median(found)
        rows.append({"way": way, "predicted": expected, "measured": found, "load": os.getloadavg()[0]})
        print(f"{way:30} {expected:.3f} {median:.3f} ({min(found):.3f} to {max(found):.3f}) {expected / median - 1:+.1%}", flush=True)
    if options.json:
        options.json.write_text(json.dumps({"flops": flops, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
