"""Whole numbers pushed to servers: what is lost or doubled on the way shows in the sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from polyrhythm.core.training.worker import Worker
from polyrhythm.workloads.workload import Metric, Sizes


@dataclass(frozen=True, slots=True)
class WholePushes:
    """At each of `steps` a worker pushes its own whole numbers, whatever the weights are; servers add all of them up.

    The metric is the largest difference between a weight and what all workers pushed: 0 where nothing was lost or doubled. The number of
    workers is a power of 2, so that every sum is exact.
    """

    steps: int = 20
    width: int = 16

    name: ClassVar[str] = "whole-pushes"
    description: ClassVar[str] = "whole numbers that servers add up"
    metric: ClassVar[Metric] = Metric("loss", higher_is_better=False)

    @property
    def sizes(self) -> Sizes:
        """Every step counts as a sample."""
        return Sizes(self.steps, 1, 1, "generated")

    def __call__(self, worker: Worker) -> None:
        """Push, as one of the workers."""
        model: nn.Module = nn.Linear(self.width, self.width, bias=False)
        nn.init.zeros_(next(model.parameters()))
        pushed = [[self.push(rank, step) for step in range(self.steps)] for rank in range(worker.workers)]
        expected = -torch.stack([torch.stack(each).sum(0) for each in pushed]).sum(0)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=1.0))
        worker.evaluate(lambda model: {"loss": (next(model.parameters()).detach() - expected).abs().max().item()})
        for step in range(self.steps):
            worker.count(1)
            optimizer.zero_grad()
            (next(model.parameters()) * pushed[worker.rank][step]).sum().backward()  # type: ignore[no-untyped-call]
            optimizer.step()

    def push(self, rank: int, step: int) -> Tensor:
        """The whole numbers that the worker of `rank` pushes (width, width)."""
        generator = torch.Generator().manual_seed(1000 * rank + step)
        return torch.randint(-8, 9, (self.width, self.width), generator=generator).float()
