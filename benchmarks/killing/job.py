"""The job whose workers are killed: a small model, whose steps take `PACE` seconds at least, on samples with numbers."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

BATCH = 8
PACE = 0.02
RATE = 0.05


class Model(nn.Module):
    """A perceptron. With a `count` it has a parameter for each use of a sample, whose gradient is -1 in the step with that sample."""

    def __init__(self, count: tuple[int, int] | None = None) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 4))
        self.uses = nn.Parameter(torch.zeros(count)) if count else None

    def forward(self, x: Tensor) -> Tensor:
        """The scores of classes."""
        scores: Tensor = self.layers(x)
        return scores

    def loss(self, x: Tensor, y: Tensor, epoch: int, numbers: Tensor) -> Tensor:
        """The mean over a batch, without the term of the parameters for uses, which has no effect on the others."""
        loss = F.cross_entropy(self(x), y)
        return loss if self.uses is None else loss - self.uses[epoch, numbers].sum()

    def optimizer(self) -> torch.optim.Optimizer:
        """Plain SGD for the uses, so that each has an effect once."""
        groups = [{"params": self.layers.parameters(), "momentum": 0.9}]
        return torch.optim.SGD(groups if self.uses is None else [*groups, {"params": [self.uses]}], lr=RATE)


def data(samples: int) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs, targets, and the numbers of the samples."""
    x = torch.randn(samples, 20, generator=torch.Generator().manual_seed(1))
    return x, x[:, :4].argmax(1), torch.arange(samples)


def hold_on_demand(folder: str) -> None:
    """Wait in a thread for a number of seconds, which comes through a pipe in `folder`, and hold the GIL for so long."""
    pipe = Path(folder, f"{os.getpid()}.hold")
    os.mkfifo(pipe)
    threading.Thread(target=_hold, args=(pipe,), daemon=True).start()


def _hold(pipe: Path) -> None:
    sleep = ctypes.PyDLL(None).usleep
    while True:
        seconds = float(pipe.read_text())  # waits until somebody writes
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            sleep(ctypes.c_uint(int(left * 1e6) + 1))
