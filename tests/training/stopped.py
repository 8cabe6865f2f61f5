"""A script that joins a run and trains until it is stopped, or for a while if it is to be `short`."""

import sys
import time
from pathlib import Path

import torch
from torch.nn import functional as F
from toy import data, network

import polyrhythm as pr

system, *words = sys.argv[1:]


def main() -> None:
    worker = pr.join(system, directory="record", checkpoint="ck" if "checkpoint" in words else None)
    model = network()
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    began = time.monotonic()
    for _ in range(10**6):
        for x, y in worker.batches(data(), batch_size=4):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            Path(f"up.{worker.rank}").touch()
            time.sleep(0.002)
        if worker.any("short" in words and time.monotonic() - began > 6):
            break


if __name__ == "__main__":
    main()
