"""The networks of actors: scores of actions, and values of states."""

from __future__ import annotations

from torch import Tensor, nn

from polyrhythm.workloads.actors.environment import Environment


def scores(environment: Environment, width: int, outputs: int) -> nn.Module:
    """One hidden layer: observations (k, n) to (k, outputs)."""
    return nn.Sequential(nn.Linear(environment.observed, width), nn.Tanh(), nn.Linear(width, outputs))


class ActorCritic(nn.Module):
    """A policy and a value, each of a network of its own."""

    def __init__(self, environment: Environment, width: int) -> None:
        super().__init__()
        self.policy = scores(environment, width, environment.actions)
        self.value = scores(environment, width, 1)

    def forward(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of actions (k, A) and values (k,) of observations (k, n)."""
        return self.policy(seen), self.value(seen).squeeze(-1)
