"""Trainings of which only sizes matter. Reproductions time their steps to compare messages and seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


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
