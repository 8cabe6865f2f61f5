"""The networks of actors: scores of actions, and values of states."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple, cast

from torch import Tensor, nn

from polyrhythm.workloads.actors.environment import Environment


class Scaled(nn.Module):
    """`scale` times what `model` gives: values that are far from 1 are learnt as soon as those that are near."""

    def __init__(self, model: nn.Module, scale: float) -> None:
        super().__init__()
        self.model = model
        self.scale = scale

    def forward(self, seen: Tensor) -> Tensor:
        """What the model gives, times `scale`."""
        return self.scale * cast("Tensor", self.model(seen))


class Size(NamedTuple):
    """Hidden `layers` of `width` units each; values, not scores of a policy, are `scale` times the output."""

    width: int
    layers: int = 1
    scale: float = 1.0


def scores(environment: Environment, size: Size, outputs: int) -> nn.Module:
    """A network with tanh: observations (k, n) to (k, outputs)."""
    sizes = [environment.observed, *[size.width] * size.layers]
    hidden = [each for inputs in pairwise(sizes) for each in (nn.Linear(*inputs), nn.Tanh())]
    return nn.Sequential(*hidden, nn.Linear(size.width, outputs))


class ActorCritic(nn.Module):
    """A policy and a value, each of a network of its own."""

    def __init__(self, environment: Environment, size: Size) -> None:
        super().__init__()
        self.policy = scores(environment, size, environment.actions)
        self.value = Scaled(scores(environment, size, 1), size.scale)

    def forward(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of actions (k, A) and values (k,) of observations (k, n)."""
        return self.policy(seen), self.value(seen).squeeze(-1)
