"""Rounding of updates to weights in few bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from torch import Tensor

from polyrhythm.core.shared_memory.fixed_point import subtract_nearest, subtract_stochastically


class WeightRounding(Protocol):
    """The rounding of an update to shared weights; frozen settings."""

    def subtract(self, held: Tensor, update: Tensor, scale: float, draw: np.random.Generator) -> None:
        """Subtract `update` (n,) of float32 from `held` (n,), whole numbers in units of `scale`, a power of two.

        A value beyond the range becomes its end.
        """


@dataclass(frozen=True, slots=True)
class StochasticRounding:
    """To the whole number below or above, at random, so that the expectation is exact (Buckwild!; De Sa et al., NIPS 2015, section 3)."""

    def subtract(self, held: Tensor, update: Tensor, scale: float, draw: np.random.Generator) -> None:
        """With one draw of 32 bits, from which the numbers of all elements are made."""
        subtract_stochastically(held, update, scale, int(draw.integers(2**32)), 0)


@dataclass(frozen=True, slots=True)
class NearestRounding:
    """To the nearest whole number, which loses every update of less than half of one: training stalls when steps have become that small."""

    def subtract(self, held: Tensor, update: Tensor, scale: float, draw: np.random.Generator) -> None:
        """Draws no random numbers."""
        subtract_nearest(held, update, scale)
