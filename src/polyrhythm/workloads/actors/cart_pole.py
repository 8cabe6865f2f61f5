"""Gymnasium's CartPole: a pole on a cart that is pushed left or right, and must not fall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from polyrhythm.core import rng
from polyrhythm.core.extras import needed
from polyrhythm.workloads.actors.environment import Transition

_STRAIGHT = 2**31


@dataclass(frozen=True, slots=True)
class CartPole:
    """CartPole-v1 (Barto, Sutton, Anderson, 1983; Gymnasium): a reward of 1 a frame until the pole falls, at most `horizon` frames.

    The score is the mean return of `episodes` episodes; 475 counts as solved. Needs the extra `actors`.
    """

    horizon: int = 500
    discount: float = 0.99
    episodes: int = 20

    @property
    def observed(self) -> int:
        """Place and speed of the cart, angle and angular speed of the pole."""
        return 4

    @property
    def actions(self) -> int:
        """Pushes to the left and to the right."""
        return 2

    def play(self, draw: np.random.Generator) -> CartPolePlay:
        """A course that draws its beginnings from this stream."""
        return CartPolePlay(self, draw)

    def score(self, policy: nn.Module, seed: int) -> float:
        """The mean return of the likeliest actions."""
        plays = [CartPolePlay(self, rng.stream(seed, "cart-pole", "score", k)) for k in range(self.episodes)]
        returns, running = [0] * self.episodes, list(range(self.episodes))
        while running:
            with torch.no_grad():
                actions = policy(torch.stack([plays[k].observation for k in running])).argmax(dim=1).tolist()
            outcomes = {k: plays[k].act(action) for k, action in zip(running, actions, strict=True)}
            for k in running:
                returns[k] += 1
            running = [k for k in running if not outcomes[k].over]
        return sum(returns) / self.episodes


class CartPolePlay:
    """One course of episodes of `settings`."""

    def __init__(self, settings: CartPole, draw: np.random.Generator) -> None:
        self.settings = settings
        self.draw = draw
        self.inner: Any = needed("gymnasium.envs.classic_control.cartpole", "actors").CartPoleEnv()
        self.frames = 0
        self._begin()

    def _begin(self) -> None:
        self.frames = 0
        seen, _ = self.inner.reset(seed=int(self.draw.integers(_STRAIGHT)))
        self.seen = torch.from_numpy(seen)

    @property
    def observation(self) -> Tensor:
        return self.seen

    def act(self, action: int) -> Transition:
        seen, reward, terminal, _, _ = self.inner.step(action)
        self.seen = following = torch.from_numpy(seen)
        self.frames += 1
        over = bool(terminal) or self.frames == self.settings.horizon
        if over:
            self._begin()
        return Transition(float(reward), following, bool(terminal), over)

    def state_dict(self) -> dict[str, Any]:
        """Where cart and pole are: the inner environment draws only when an episode begins."""
        place = [float(each) for each in self.inner.state]
        return {"place": place, "frames": self.frames, "draw": self.draw.bit_generator.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.inner.state = np.array(state["place"])
        self.seen, self.frames = torch.tensor(state["place"], dtype=torch.float32), state["frames"]
        self.draw.bit_generator.state = state["draw"]
