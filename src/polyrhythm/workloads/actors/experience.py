"""What a learner of action values learns from: frames that it keeps, or those that it has just seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from polyrhythm.errors import WorkloadError
from polyrhythm.workloads.actors.environment import Transition


class Frames(NamedTuple):
    """Observations before and after (k, n), `actions` (k,), int64, rewards and discounts (k,)."""

    seen: Tensor
    actions: Tensor
    rewards: Tensor
    discounts: Tensor
    following: Tensor


class FrameMemory(Protocol):
    """The frames of one worker."""

    def add(self, seen: Tensor, action: int, transition: Transition, discount: float) -> None:
        """A frame was seen."""

    def batch(self, draw: np.random.Generator) -> Frames:
        """Frames to learn from."""

    def state_dict(self) -> dict[str, Any]:
        """The frames, as `worker.keep` wants them."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take them over."""


class Experience(Protocol):
    """Frozen settings of a memory."""

    def memory(self, observed: int, frames: int) -> FrameMemory:
        """An empty one, for steps of so many frames each."""


Places = Callable[[np.random.Generator, int], Tensor]
"""The places of a batch among so many frames."""


class FrameRing:
    """The last frames, as many as it has room for; `places` says which of them are a batch."""

    def __init__(self, observed: int, room: int, places: Places) -> None:
        seen, following = torch.zeros(room, observed), torch.zeros(room, observed)
        self.frames = Frames(seen, torch.zeros(room, dtype=torch.int64), torch.zeros(room), torch.zeros(room), following)
        self.room, self.places, self.added = room, places, 0

    def add(self, seen: Tensor, action: int, transition: Transition, discount: float) -> None:
        place, frames = self.added % self.room, self.frames
        frames.seen[place], frames.following[place] = seen, transition.following
        frames.actions[place], frames.rewards[place] = action, transition.reward
        frames.discounts[place] = 0.0 if transition.terminal else discount
        self.added += 1

    def batch(self, draw: np.random.Generator) -> Frames:
        places = self.places(draw, min(self.added, self.room))
        return Frames(*(each[places] for each in self.frames))

    def state_dict(self) -> dict[str, Any]:
        return {"added": self.added, **self.frames._asdict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.added = state["added"]
        for name, own in self.frames._asdict().items():
            own.copy_(state[name])


@dataclass(frozen=True, slots=True)
class ExperienceReplay:
    """`batch` frames drawn from the last `room` of this worker's (experience replay; Lin, 1992; Mnih et al., 2015)."""

    room: int = 10_000
    batch: int = 32

    def __post_init__(self) -> None:
        if self.room < 1 or self.batch < 1:
            raise WorkloadError(f"ExperienceReplay was given room={self.room} and batch={self.batch}: both must be 1 or more.")

    def memory(self, observed: int, frames: int) -> FrameMemory:
        return FrameRing(observed, self.room, lambda draw, there: torch.from_numpy(draw.integers(0, there, self.batch)))


@dataclass(frozen=True, slots=True)
class NoReplay:
    """The frames of this step alone (asynchronous one-step Q-learning; Mnih et al., 2016)."""

    def memory(self, observed: int, frames: int) -> FrameMemory:
        return FrameRing(observed, frames, lambda draw, there: torch.arange(there))
