"""Momentum over rounds of local steps."""

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
class SlowMomentum:
    """u ← β u + d / γ; step = α γ u, γ being the workers' learning rate (SlowMo; Wang, Tantia, Ballas, Rabbat, ICLR 2020, algorithm 1).

    d is the update of a round: the mean of the workers' moves since the last one. With α = 1 and β = 0 it is taken as it is. u is free
    of the learning rate, so that a schedule does not scale the momentum. In a round with a rate of 0, u only decays.
    """

    takes_rate: ClassVar = True
    takes_norm: ClassVar = True

    alpha: float = 1.0
    beta: float = 0.7

    def __post_init__(self) -> None:
        if not self.alpha > 0 or not 0 <= self.beta < 1:
            raise CompositionError(f"{self} would not converge: give a positive alpha, and a beta of at least 0 and below 1.")

    def initial(self, layout: Layout) -> State:
        return {"momentum": torch.zeros(layout.numel)}

    def step(self, direction: Tensor, state: State, rate: float, workers: int = 1) -> tuple[Tensor, State]:
        momentum = self.beta * state["momentum"].to(direction.device)
        if rate > 0:
            momentum = momentum + direction / rate
        return self.alpha * rate * momentum, {"momentum": momentum}
