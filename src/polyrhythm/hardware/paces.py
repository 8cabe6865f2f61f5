"""Paces: factors that slow some workers or some steps.

Paces compose: their slowdowns multiply. Each draws from its own random stream, so adding one changes no draw of another.
"""

from __future__ import annotations

import math
from typing import Protocol

import msgspec
import numpy as np

from polyrhythm.errors import CompositionError


class Pace(Protocol):
    """The factor by which the time of one step of one worker is multiplied."""

    def slowdown(self, rank: int, draws: np.random.Generator) -> float:
        """The factor for the next step of the worker of `rank`; `draws` is this pace's and worker's own stream."""

    def always(self, rank: int) -> float:
        """The factor before the worker's first step, or of a program without steps; 1 where it is drawn for each."""


class Uniform(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """All workers keep the same time."""

    def slowdown(self, rank: int, draws: np.random.Generator) -> float:
        """The factor is always 1: no step is slowed."""
        return 1.0

    def always(self, rank: int) -> float:
        """1: nothing slows it."""
        return 1.0


class Mixed(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Workers have different `speeds`, assigned in rotation: 0.5 is half as fast as the device."""

    speeds: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.speeds or min(self.speeds) <= 0:
            raise CompositionError(f"Mixed was given the speeds {self.speeds}. Give one or more, all above zero.")

    def slowdown(self, rank: int, draws: np.random.Generator) -> float:
        """The inverse of the worker's speed."""
        return self.always(rank)

    def always(self, rank: int) -> float:
        """The same."""
        return 1.0 / self.speeds[rank % len(self.speeds)]


class Jitter(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Every step's time is multiplied by a lognormal factor of mean 1; `sigma` is the deviation of its logarithm."""

    sigma: float

    def __post_init__(self) -> None:
        if not 0 <= self.sigma < math.inf:
            raise CompositionError(f"Jitter was given sigma {self.sigma}. It must be zero or more: 0.1 varies a step by about a tenth.")

    def slowdown(self, rank: int, draws: np.random.Generator) -> float:
        """A lognormal factor with mean 1, drawn for each step."""
        return math.exp(self.sigma * draws.standard_normal() - self.sigma**2 / 2)

    def always(self, rank: int) -> float:
        """1: it is drawn for steps."""
        return 1.0


class Straggler(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """One `worker` takes `factor` times as long, always."""

    worker: int
    factor: float

    def __post_init__(self) -> None:
        if self.worker < 0 or self.factor <= 0:
            raise CompositionError(
                f"Straggler was given worker {self.worker} and factor {self.factor}. Give a rank and a factor above zero."
            )

    def slowdown(self, rank: int, draws: np.random.Generator) -> float:
        """The factor, for that worker."""
        return self.always(rank)

    def always(self, rank: int) -> float:
        """The same."""
        return self.factor if rank == self.worker else 1.0


class RandomStragglers(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Each step of each worker takes `factor` times as long with `probability` (as in Chen et al., 2016, on backup workers)."""

    probability: float
    factor: float

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1 or self.factor <= 0:
            raise CompositionError(
                f"RandomStragglers was given probability {self.probability} and factor {self.factor}. "
                "Give a probability from 0 to 1 and a factor above zero."
            )

    def slowdown(self, rank: int, draws: np.random.Generator) -> float:
        """`factor` with the given probability, drawn for each step; else 1."""
        return self.factor if draws.random() < self.probability else 1.0

    def always(self, rank: int) -> float:
        """1: it is drawn for steps."""
        return 1.0


Paces = list[Uniform | Mixed | Jitter | Straggler | RandomStragglers]
"""As a device file lists them: {"type": "Jitter", "sigma": 0.1}."""
