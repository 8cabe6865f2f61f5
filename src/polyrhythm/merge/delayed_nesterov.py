"""Delayed Nesterov momentum, for updates that come one at a time: the momentum changes only at every N-th."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class DelayedNesterov:
    """Nesterov momentum of every N updates; in between plain steps (Liu et al., 2024, arXiv:2401.09135, algorithm 3).

    s ← s + d. At each N-th update b ← μ b + s / N, s ← 0 and step = η (d + (N (1 - c) + c) μ b); at the others step = η (d + c μ b).
    `every` is N, by default the number of workers, and `spread` c, from 0 (momentum at the N-th alone) to 1 (evenly; N times the
    paper's c). A merge that divides by the number of workers, as Mean does for single updates, turns η into η / P; then N updates move the
    weights by the mean of their d and by one momentum. With N = 1 it is `Nesterov`.
    """

    takes_rate: ClassVar = False
    takes_norm: ClassVar = True

    learning_rate: float = 0.7
    momentum: float = 0.9
    every: int | None = None
    spread: float = 0.0

    def __post_init__(self) -> None:
        if not (self.learning_rate > 0 and 0 <= self.momentum < 1 and (self.every is None or self.every >= 1) and 0 <= self.spread <= 1):
            raise CompositionError(
                f"{self!r} cannot step: give a positive learning rate, a momentum of at least 0 and below 1, every=1 update or more, and a "
                "spread from 0 to 1."
            )

    def initial(self, layout: Layout) -> State:
        """No momentum, and a sum of no updates."""
        zeros = torch.zeros(layout.numel)
        return {"momentum": zeros, "sum": zeros.clone(), "count": torch.zeros(())}

    def step(self, direction: Tensor, state: State, rate: float, workers: int = 1) -> tuple[Tensor, State]:
        """η (d + a μ b), where a is c, and at every N-th update N (1 - c) + c."""
        momentum, total = state["momentum"].to(direction.device), state["sum"].to(direction.device) + direction
        every = workers if self.every is None else self.every
        count = state["count"] + 1
        share = self.spread
        if count.item() >= every:  # larger if N fell, because a worker has left
            momentum = self.momentum * momentum + total / every
            total, count = torch.zeros_like(total), torch.zeros(())
            share += every * (1 - self.spread)
        step = self.learning_rate * (direction + share * self.momentum * momentum)
        return step, {"momentum": momentum, "sum": total, "count": count}
