"""Optimizers that run where the weights are held, as functions of a direction and a state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError

_LARGEST = 3e38
"""About the largest number of float32."""


@dataclass(frozen=True, slots=True)
@checked
class Nesterov:
    """SGD with Nesterov momentum: b ← μ b + d; step = η (d + μ b) (Sutskever et al., 2013, as torch.optim.SGD has it)."""

    takes_rate: ClassVar = False
    takes_norm: ClassVar = True

    learning_rate: float = 0.7
    momentum: float = 0.9

    def __post_init__(self) -> None:
        if not self.learning_rate > 0 or not 0 <= self.momentum < 1:
            raise CompositionError(
                f"Nesterov(learning_rate={self.learning_rate}, momentum={self.momentum}) would not converge: give a positive "
                f"learning rate and a momentum of at least 0 and below 1."
            )

    def initial(self, layout: Layout) -> State:
        return {"momentum": torch.zeros(layout.numel)}

    def step(self, direction: Tensor, state: State, rate: float, workers: int = 1) -> tuple[Tensor, State]:
        momentum = self.momentum * state["momentum"].to(direction.device) + direction
        return self.learning_rate * (direction + self.momentum * momentum), {"momentum": momentum}


@dataclass(frozen=True, slots=True)
@checked
class Adagrad:
    """s ← s + d²; step = η d / (√s + ε) (Duchi et al., 2011; at the server: Dean et al., 2012, section 4.1).

    Without a `learning_rate`, that of the workers is used. `initial_sum` starts s above zero, so that the first steps are not of
    size η in every coordinate.
    """

    takes_norm: ClassVar = True

    learning_rate: float | None = None
    initial_sum: float = 0.0
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        if not (self.initial_sum >= 0 and self.epsilon > 0 and (self.learning_rate is None or self.learning_rate > 0)):
            raise CompositionError(f"{self} cannot step: the learning rate and epsilon must be positive, initial_sum at least 0.")
        if self.initial_sum > _LARGEST:
            raise CompositionError(f"{self} begins with a sum that float32 cannot hold: give at most {_LARGEST:g}.")

    @property
    def takes_rate(self) -> bool:
        """True if it steps with the workers' learning rate."""
        return self.learning_rate is None

    def initial(self, layout: Layout) -> State:
        """The sum of squares before the first step."""
        return {"sum": torch.full((layout.numel,), self.initial_sum)}

    def step(self, direction: Tensor, state: State, rate: float, workers: int = 1) -> tuple[Tensor, State]:
        squares = state["sum"].to(direction.device) + direction * direction
        eta = rate if self.learning_rate is None else self.learning_rate
        return eta * direction / (squares.sqrt() + self.epsilon), {"sum": squares}
