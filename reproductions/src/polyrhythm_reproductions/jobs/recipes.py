"""Optimizers as settings: those that a paper trained with. Reproductions give a recipe to a job, which builds its optimizer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch.nn import Parameter


class OptimizerRecipe(Protocol):
    """A recipe for an optimizer; `learning_rate` is the setting to tune."""

    @property
    def learning_rate(self) -> float:
        """The learning rate of the optimizer."""

    def build(self, parameters: Iterable[Parameter]) -> torch.optim.Optimizer:
        """The optimizer of these parameters."""


@dataclass(frozen=True, slots=True)
class SgdRecipe:
    """Stochastic gradient descent, with momentum where it is above 0."""

    learning_rate: float
    momentum: float = 0.0
    weight_decay: float = 0.0

    def build(self, parameters: Iterable[Parameter]) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=self.learning_rate, momentum=self.momentum, weight_decay=self.weight_decay)


@dataclass(frozen=True, slots=True)
class AdagradRecipe:
    """Duchi et al., 2011."""

    learning_rate: float

    def build(self, parameters: Iterable[Parameter]) -> torch.optim.Optimizer:
        return torch.optim.Adagrad(parameters, lr=self.learning_rate)


@dataclass(frozen=True, slots=True)
class AdamWRecipe:
    """Loshchilov and Hutter, 2019; `beta` is that of the first moment."""

    learning_rate: float
    beta: float = 0.9
    weight_decay: float = 0.01

    def build(self, parameters: Iterable[Parameter]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameters, lr=self.learning_rate, betas=(self.beta, 0.999), weight_decay=self.weight_decay)
