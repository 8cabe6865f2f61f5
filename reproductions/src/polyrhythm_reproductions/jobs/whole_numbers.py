"""Least squares whose every sum is exact, so that the order of adding makes no difference to any bit."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from polyrhythm.core.training.worker import Worker


@dataclass(frozen=True, slots=True)
class WholeNumbers:
    """Small whole numbers in 64 bits, at a rate of 1/4 by plain SGD, from zero; every worker reports its weights after each of `steps`.

    The numerators of weights and gradients stay far below 2^53, if workers are a power of 2 or their gradients are added up.
    """

    steps: int = 5

    def __call__(self, worker: Worker) -> None:
        """Train once, as one of the workers."""
        model: nn.Module = nn.Linear(3, 2, bias=False).double()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.25))
        for step in range(self.steps):
            x = torch.tensor([[1.0, -1.0, 1.0], [0.0, 1.0, worker.rank % 2]], dtype=torch.float64).roll(step + worker.rank, 1)
            y = torch.tensor([[worker.rank + 1.0, step], [step, 1.0]], dtype=torch.float64)
            optimizer.zero_grad()
            (model(x) - y).square().sum().mul(0.5).backward()
            worker.count(2)
            optimizer.step()
            worker.report(**{f"w{k}": value for k, value in enumerate(next(model.parameters()).detach().flatten().tolist())})
