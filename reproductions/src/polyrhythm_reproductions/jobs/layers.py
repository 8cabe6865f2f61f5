"""Linear layers on random numbers, to count what is sent of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from polyrhythm.core.training.worker import Worker


@dataclass(frozen=True, slots=True)
class Layers:
    """Layers of (outputs, inputs) `shapes` without biases, each of which takes what the one before gives; `batch` samples a step."""

    shapes: tuple[tuple[int, int], ...]
    batch: int
    steps: int

    def __call__(self, worker: Worker) -> None:
        """Train once, as one of the workers."""
        model: nn.Module = nn.Sequential(*(nn.Linear(ins, outs, bias=False) for outs, ins in self.shapes))
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.01))
        draw = torch.Generator().manual_seed(worker.rank)
        for _ in range(self.steps):
            optimizer.zero_grad()
            model(torch.randn(self.batch, self.shapes[0][1], generator=draw)).square().mean().backward()
            worker.count(self.batch)
            optimizer.step()
