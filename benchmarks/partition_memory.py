"""A GPT of 50 M parameters on real processes each of which may have a limited memory: alone it fails, in parts it trains.

    python benchmarks/partition_memory.py --limit 1000 --json benchmarks/results/partition_memory.json

Every worker limits its private memory (RLIMIT_DATA) to what its process has when it begins, and so many MB. Each way runs in a process of
its own, `STEPS` steps of Adam on batches of 8 windows of 64 characters. The table has the largest resident memory of a worker beyond what
its process had, the seconds of a step (median; two workers on two cores, one thread each), and the loss of the last step; ways that train
give the same.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import polyrhythm as pr
from polyrhythm.partition import Columns, Heads, Pipelined, Rows, Zero
from polyrhythm.workloads.chars import corpus, windows
from polyrhythm.workloads.gpt import Gpt, GptSize

STEPS, BATCH, CONTEXT = 6, 8, 64
SIZE = GptSize(corpus().vocabulary, CONTEXT, layers=7, width=768, heads=12)
TENSOR = {"blocks.*": Heads(12, others={"widen": Columns(), "narrow": Rows()})}
WAYS: dict[str, dict[str, Any]] = {
    "one process": {"mesh": pr.Mesh(dp=1)},
    "replicas, allreduce": {"mesh": pr.Mesh(dp=2), "strategy": "allreduce"},
    "Zero(1)": {"mesh": pr.Mesh(dp=2), "strategy": {"dp": Zero(1)}},
    "Zero(2)": {"mesh": pr.Mesh(dp=2), "strategy": {"dp": Zero(2)}},
    "Zero(3)": {"mesh": pr.Mesh(dp=2), "strategy": {"dp": Zero(3)}},
    "tensor parallel": {"mesh": pr.Mesh(tp=2), "cut": pr.Cut(TENSOR)},
    "two stages, 1F1B": {"mesh": pr.Mesh(pp=2), "cut": pr.Cut(pipeline=Pipelined(micro_batches=4))},
}


def resident() -> float:
    """The resident memory of this process, MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def loss(scores: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def train(worker: pr.Worker, limit: float) -> None:
    torch.set_num_threads(1)
    dataset = windows(corpus().training, CONTEXT, BATCH * STEPS)
    gc.collect()
    began = resident()
    if limit:
        held = int(next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmData")).split()[1]) * 1024
        resource.setrlimit(resource.RLIMIT_DATA, (held + int(limit * 1e6),) * 2)
    model = worker.build(lambda: Gpt(SIZE))
    optimizer: torch.optim.Optimizer = torch.optim.Adam(model.parameters(), lr=3e-4, foreach=False)
    model, optimizer = worker.attach(model, optimizer, loss=loss)
    times, most, found = [], 0.0, torch.zeros(())
    for x, y in worker.batches(dataset, batch_size=BATCH // worker.replicas):
        since = time.perf_counter()
        optimizer.zero_grad()
        found = worker.train_step(x, y)
        optimizer.step()
        times.append(time.perf_counter() - since)
        most = max(most, resident())
    highest = max(worker.gather(most - began))
    worker.report(loss=worker.mean(found), megabytes=highest, step=statistics.median(times[1:]))


def one(way: str, limit: float) -> dict[str, Any]:
    """One way: what it reports, or why it failed."""
    try:
        run = pr.run(lambda worker: train(worker, limit), **WAYS[way], on=pr.Processes(), seed=1)
    except pr.PolyrhythmError as problem:
        return {
            "failed": next((line for line in str(problem).splitlines() if "memory" in line.lower() or "Error" in line), str(problem)[:200])
        }
    return {**run.summary.final, "bytes sent": run.summary.bytes_sent}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=0.0, help="MB")
    parser.add_argument("--ways", nargs="+", default=[*WAYS], choices=WAYS)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        print(json.dumps(one(options.way, options.limit)))
        return
    rows = {}
    for way in options.ways:
        command = [sys.executable, __file__, "--way", way, "--limit", str(options.limit)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        rows[way] = json.loads(done.stdout.splitlines()[-1]) if done.stdout else {"failed": done.stderr[-300:]}
        print(way, rows[way], flush=True)
    if options.json:
        options.json.write_text(json.dumps({"limit": options.limit, "load": os.getloadavg(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
