"""A chain of states with a small reward at its beginning and a large one at its end: exploration decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from polyrhythm.errors import WorkloadError
from polyrhythm.workloads.actors.decision_process import DecisionProcess
from polyrhythm.workloads.actors.environment import Transition

_LEFT, _RIGHT = 0, 1


@dataclass(frozen=True, slots=True)
class RewardChain:
    """`states` in a row; an actor begins at the first, and goes left or right, with a chance of `slip` the other way.

    Who goes right from the last state stays there for a reward of 1, who goes left from the first stays for `small`; all else gives 0. An
    episode has `horizon` frames, and ends without being terminal. A greedy learner that sees the small reward first never comes to the
    large one; the best policy goes right. (A chain with a distracting reward, after Strens, 2000.) Future rewards count less by `discount`.
    """

    states: int = 8
    slip: float = 0.1
    small: float = 0.05
    horizon: int = 50
    discount: float = 0.95

    def __post_init__(self) -> None:
        if self.states < 2 or self.horizon < 1:
            raise WorkloadError(f"A chain was given states={self.states} and horizon={self.horizon}: give 2 states and 1 frame, or more.")
        if not (0 <= self.slip < 0.5 and 0 < self.discount < 1):
            raise WorkloadError(
                f"A chain was given slip={self.slip} and discount={self.discount}: a slip is 0 or more and below 0.5, a discount is "
                "between 0 and 1."
            )

    @property
    def observed(self) -> int:
        """One number a state: 1 for the one that the actor is in."""
        return self.states

    @property
    def actions(self) -> int:
        """Left and right."""
        return 2

    def play(self, draw: np.random.Generator) -> ChainPlay:
        """A course that begins at the first state."""
        return ChainPlay(self, draw)

    def process(self) -> DecisionProcess:
        """The chain as a decision process that does not end."""
        chances = torch.zeros(2, self.states, self.states, dtype=torch.float64)
        rewards = torch.zeros(self.states, 2, dtype=torch.float64)
        for state in range(self.states):
            for action in (_LEFT, _RIGHT):
                for moved, chance in ((action, 1 - self.slip), (1 - action, self.slip)):
                    following, reward = self.move(state, moved)
                    chances[action, state, following] += chance
                    rewards[state, action] += chance * reward
        return DecisionProcess(chances, rewards, self.discount)

    def move(self, state: int, direction: int) -> tuple[int, float]:
        """The state that follows, and the reward."""
        if direction == _RIGHT:
            return (state, 1.0) if state == self.states - 1 else (state + 1, 0.0)
        return (state, self.small) if state == 0 else (state - 1, 0.0)

    def score(self, policy: nn.Module, seed: int) -> float:
        """The policy's exact value in the first state, as a share of the best one's."""
        process = self.process()
        with torch.no_grad():
            chances = policy(torch.eye(self.states)).softmax(dim=1).double()
        return float(process.values_of(chances)[0] / process.optimum()[0])


class ChainPlay:
    """One course through a `chain`."""

    def __init__(self, chain: RewardChain, draw: np.random.Generator) -> None:
        self.chain = chain
        self.draw = draw
        self.state, self.frames = 0, 0
        self._seen = torch.eye(chain.states)

    @property
    def observation(self) -> Tensor:
        return self._seen[self.state]

    def act(self, action: int) -> Transition:
        slips = self.draw.random() < self.chain.slip
        self.state, reward = self.chain.move(self.state, 1 - action if slips else action)
        self.frames += 1
        following, over = self.observation, self.frames == self.chain.horizon
        if over:
            self.state, self.frames = 0, 0
        return Transition(reward, following, False, over)

    def state_dict(self) -> dict[str, Any]:
        return {"state": self.state, "frames": self.frames, "draw": self.draw.bit_generator.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.state, self.frames = state["state"], state["frames"]
        self.draw.bit_generator.state = state["draw"]
