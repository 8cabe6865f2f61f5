"""The protocols of what an actor acts in: an environment as a value, and one course of it."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from torch import Tensor, nn


class Transition(NamedTuple):
    """What followed an action: the reward, and the observation (n,) after it, before any new episode begins.

    `terminal`: nothing follows, so that its value is 0. `over`: a new episode begins, because it was terminal or had its most frames.
    """

    reward: float
    following: Tensor
    terminal: bool
    over: bool


class Play(Protocol):
    """One actor's course through an environment, one episode after another; `worker.keep` takes it."""

    @property
    def observation(self) -> Tensor:
        """What the actor sees now (n,), float32."""

    def act(self, action: int) -> Transition:
        """Take an action."""

    def state_dict(self) -> dict[str, Any]:
        """Where it is, as `worker.keep` wants it."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from there."""


class Environment(Protocol):
    """Frozen settings of an environment."""

    @property
    def observed(self) -> int:
        """The numbers of an observation."""

    @property
    def actions(self) -> int:
        """The number of actions."""

    @property
    def discount(self) -> float:
        """How much less the reward of the next frame counts."""

    def play(self, draw: np.random.Generator) -> Play:
        """A course that draws from this stream."""

    def score(self, policy: nn.Module, seed: int) -> float:
        """How well `policy` does, of observations (k, n) to scores of actions (k, A), whose softmax are their chances."""
