"""A script that joins a run and trains until it is stopped, or for a while if it is to be `short`; by `command` it is a JOB."""

import os
import sys
import time
from pathlib import Path

import torch
from torch.nn import functional as F
from toy import data, network

import polyrhythm as pr


def train(worker: pr.Worker, short: bool = False) -> None:
    model = network()
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    began = time.monotonic()
    for _ in range(10**6):
        for x, y in worker.batches(data(), batch_size=4):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            Path(f"up.{worker.rank}").touch()
            if "DIVERGES" in os.environ and worker.rank == 1:
                worker.report(loss=float("nan"))
            time.sleep(0.002)
        if worker.any(short and time.monotonic() - began > 6):
            break


def main() -> None:
    system, *words = sys.argv[1:]
    if "command" in words:
        from polyrhythm.tools.cli import main as polyrhythm

        sys.argv = ["polyrhythm", "join", __file__, "--system", system, "--out", "record"]
        polyrhythm()
    worker = pr.join(system, directory="record", checkpoints=pr.Checkpoints("ck" if "checkpoint" in words else None))
    train(worker, "short" in words)


if __name__ == "__main__":
    main()
