"""Adam whose second moments are frozen after a warm-up."""

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
class FrozenAdam:
    """Adam on the direction for `warmup` steps; then the direction is the momentum itself, and v stays (Tang et al., 2021, algorithm 1).

    step = η m̂ / (√v̂ + ε), with the bias corrections of Kingma and Ba (2015), of which that of v stops with v: after a warm-up of ten
    steps v is a hundredth of its later value, and without the correction steps would be ten times as large. An element that had no gradient
    in the warm-up has no v and stays where it is, because one bit cannot say zero.
    """

    takes_rate: ClassVar = True
    takes_norm: ClassVar = True

    warmup: int
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        if not (self.warmup >= 1 and 0 <= self.beta1 < 1 and 0 <= self.beta2 < 1 and self.epsilon > 0):
            raise CompositionError(
                f"{self} cannot step: the warm-up has at least 1 step, betas are 0 or more and below 1, and epsilon is positive."
            )

    def initial(self, layout: Layout) -> State:
        moments = {name: torch.zeros(layout.numel) for name in ("momentum", "variance")}
        return {"steps": torch.zeros((), dtype=torch.int64), **moments}

    def step(self, direction: Tensor, state: State, rate: float, workers: int = 1) -> tuple[Tensor, State]:
        # m and v as in the paper
        steps = int(state["steps"]) + 1
        m, v = (state[name].to(direction) for name in ("momentum", "variance"))
        if steps <= self.warmup:
            m = self.beta1 * m + (1 - self.beta1) * direction
            v = self.beta2 * v + (1 - self.beta2) * direction * direction
        else:
            m = direction
        corrected = v / (1 - self.beta2 ** min(steps, self.warmup))
        step = rate * (m / (1 - self.beta1**steps)) / (corrected.sqrt() + self.epsilon) * (v > 0)
        return step, {"steps": torch.tensor(steps), "momentum": m, "variance": v}
