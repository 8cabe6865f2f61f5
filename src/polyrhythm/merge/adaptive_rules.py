"""Adaptive optimizers for updates of rounds of local steps (Reddi, Charles, Zaheer, Garrett, Rush, Konečný, Kumar, McMahan, ICLR 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError

_LARGEST = 1e19


@dataclass(frozen=True, slots=True)
@checked
class Adam:
    """m ← β₁ m + (1 - β₁) d; v ← β₂ v + (1 - β₂) d²; step = η m / (√v + τ) (FedAdam; Reddi et al., 2021, algorithm 2).

    v starts at τ², and there is no bias correction, as in the paper. The larger τ, the less the rates of elements differ.
    """

    takes_rate: ClassVar = False
    takes_norm: ClassVar = True

    learning_rate: float = 0.1
    betas: tuple[float, float] = (0.9, 0.99)
    adaptivity: float = 1e-3

    def __post_init__(self) -> None:
        _check(self, self.learning_rate, self.betas, self.adaptivity)

    def initial(self, layout: Layout) -> State:
        """A momentum of 0, and second moments of τ²."""
        return _initial(layout, self.adaptivity)

    def step(self, direction: Tensor, state: State, rate: float, workers: int = 1) -> tuple[Tensor, State]:
        momentum = _momentum(direction, state, self.betas[0])
        squares = self.betas[1] * state["squares"].to(direction.device) + (1 - self.betas[1]) * direction * direction
        step = self.learning_rate * momentum / (squares.sqrt() + self.adaptivity)
        return step, {"momentum": momentum, "squares": squares}


@dataclass(frozen=True, slots=True)
@checked
class Yogi:
    """Adam with v ← v - (1 - β₂) d² sign(v - d²), which forgets large gradients more slowly (FedYogi; Reddi et al., 2021, alg. 2)."""

    takes_rate: ClassVar = False
    takes_norm: ClassVar = True

    learning_rate: float = 0.1
    betas: tuple[float, float] = (0.9, 0.99)
    adaptivity: float = 1e-3

    def __post_init__(self) -> None:
        _check(self, self.learning_rate, self.betas, self.adaptivity)

    def initial(self, layout: Layout) -> State:
        """A momentum of 0, and second moments of τ²."""
        return _initial(layout, self.adaptivity)

    def step(self, direction: Tensor, state: State, rate: float, workers: int = 1) -> tuple[Tensor, State]:
        momentum, square = _momentum(direction, state, self.betas[0]), direction * direction
        before = state["squares"].to(direction.device)
        squares = before - (1 - self.betas[1]) * square * (before - square).sign()
        step = self.learning_rate * momentum / (squares.sqrt() + self.adaptivity)
        return step, {"momentum": momentum, "squares": squares}


def _momentum(direction: Tensor, state: State, beta: float) -> Tensor:
    return beta * state["momentum"].to(direction.device) + (1 - beta) * direction


def _initial(layout: Layout, adaptivity: float) -> State:
    return {"momentum": torch.zeros(layout.numel), "squares": torch.full((layout.numel,), adaptivity**2)}


def _check(rule: object, learning_rate: float, betas: tuple[float, float], adaptivity: float) -> None:
    if not (learning_rate > 0 and adaptivity > 0 and all(0 <= beta < 1 for beta in betas)):
        raise CompositionError(f"{rule} cannot step: give a positive learning rate and adaptivity, and betas of at least 0 and below 1.")
    if adaptivity > _LARGEST:
        raise CompositionError(f"{rule} has an adaptivity whose square float32 cannot hold: give at most {_LARGEST:g}.")
