"""Digits by a perceptron, in steps that take as long as on a slower machine; `placements_lab.py` places such trainings.

`PACE` in the environment has the seconds of a step. Without it steps are as fast as they are, as in virtual time, where machines have
profiles with these seconds.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import nn

import polyrhythm as pr
from polyrhythm.workloads.digits import digits

PACE = "PLACEMENT_PACE"
RATE = 0.005
"""Small, so that as much faster as there are workers is no loss (Goyal et al., 2017)."""


@dataclass(frozen=True)
class Train:
    """A hidden layer of `width`, so that a message has about 0.3 kB for each of its units, and `epochs` through the digits."""

    width: int = 512
    epochs: int = 24
    batch_size: int = 16
    name: ClassVar[str] = "placement"

    def __call__(self, worker: pr.Worker) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(worker.seed)
        training, test = digits()
        model = nn.Sequential(nn.Flatten(), nn.Linear(64, self.width), nn.ReLU(), nn.Linear(self.width, 10))
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=RATE * worker.workers))
        worker.evaluate(lambda model: {"accuracy": (model(test.tensors[0]).argmax(1) == test.tensors[1]).float().mean()})
        pace = float(os.environ.get(PACE, 0.0))
        for _ in range(self.epochs):
            for x, y in worker.batches(training, batch_size=self.batch_size):
                began = time.perf_counter()
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                time.sleep(max(0.0, pace - (time.perf_counter() - began)))
                optimizer.step()


train = Train()
