"""A worker that joins, trains, leaves, and joins again when told to: `rank port` on each line of stdin, one line of JSON for each round."""

import json
import os
import sys
import threading
from pathlib import Path

import torch
from torch.nn import functional as F
from toy import data, network

import polyrhythm as pr


def train(worker: pr.Worker, deed: str) -> None:
    model = network()
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for x, y in worker.batches(data(), batch_size=8):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        if deed == "die" and worker.clock == 2:
            os._exit(9)
    worker.report(loss=0.5)


def held() -> list[int]:
    return [len(list(Path("/proc/self/fd").iterdir())), threading.active_count()]


plain = sys.exit
for line in sys.stdin:
    rank, workers, port, system, deed = line.split()
    os.environ.update(RANK=rank, WORLD_SIZE=workers, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    answer: dict[str, object]
    try:
        worker = pr.join(system, seed=1)
        train(worker, deed)
        run = worker.leave()
        answer = {"steps": run.summary.steps, "samples": run.summary.samples, "sha": run.summary.weights_sha256, "final": run.final}
    except pr.PolyrhythmError as problem:
        answer = {"error": str(problem)}
    print(json.dumps({**answer, "held": held(), "exit": sys.exit is plain}), flush=True)
