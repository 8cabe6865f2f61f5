"""Trainings of which only sizes matter, and what one step of a training costs: seconds, bytes and messages, without its arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from polyrhythm.simulator import Simulator
from polyrhythm.strategy import Strategy
from polyrhythm.training.timing import time
from polyrhythm.training.work import Train


@dataclass(frozen=True, slots=True)
class Vectors:
    """Parameters of these `sizes` in numbers, all of which every step uses, the last one first on the way back."""

    sizes: tuple[int, ...]

    def __call__(self, worker: Any) -> None:
        """A few steps."""
        model, optimizer = _Vectors(self.sizes), None
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.0))
        for _ in range(4):
            worker.count(1)
            optimizer.zero_grad()
            model().backward()
            optimizer.step()


class _Vectors(nn.Module):
    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__()
        self.parts = nn.ParameterList(torch.zeros(size) for size in sizes)

    def forward(self) -> Tensor:
        return torch.stack([part.sum() for part in self.parts]).sum()


@dataclass(frozen=True, slots=True)
class StepCost:
    """Of one step of all workers together, once a run is under way: virtual seconds, bytes with their headers, messages."""

    seconds: float
    nbytes: int
    messages: int


def step_cost(train: Train, strategy: str | Strategy, workers: int, on: Simulator) -> StepCost:
    """What a step of `train` costs: the difference of timing-only runs of two lengths, so that what comes once is left out."""
    short, long = (time(train, workers=workers, strategy=strategy, steps=steps, on=on).summary for steps in (2, 4))
    assert short.virtual_seconds is not None
    assert long.virtual_seconds is not None
    return StepCost(
        (long.virtual_seconds - short.virtual_seconds) / 2,
        (long.bytes_sent - short.bytes_sent) // 2,
        (long.messages_sent - short.messages_sent) // 2,
    )
