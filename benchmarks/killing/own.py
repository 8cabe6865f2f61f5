"""The job under Polyrhythm, as `elastic_peers.py` runs it beside the others."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch

import polyrhythm as pr

sys.path.insert(0, str(Path(__file__).parents[1]))
from killing.job import BATCH, PACE, Model, data
from killing.records import StepRecord


@dataclass(frozen=True, slots=True)
class Train:
    """So many passes through the data; the record of steps is written to `folder`."""

    folder: str
    samples: int
    epochs: int

    def __call__(self, worker: pr.Worker) -> None:
        record = StepRecord(self.folder)
        torch.manual_seed(0)
        model = Model()
        model, optimizer = worker.attach(model, model.optimizer())
        for epoch in worker.epochs(self.epochs):
            for x, y, numbers in worker.batches(data(self.samples), batch_size=BATCH):
                record.begin(epoch, numbers.tolist())
                time.sleep(PACE)
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
                record.end()


if __name__ == "__main__":
    folder, samples, epochs, workers = sys.argv[1], *map(int, sys.argv[2:])
    pr.run(Train(folder, samples, epochs), workers=(1, workers), on=pr.Processes())
