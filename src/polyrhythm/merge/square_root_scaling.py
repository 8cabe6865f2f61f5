"""A learning rate that grows with the square root of the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.merge import AnyContribution, Direction
from polyrhythm.core.protocols.traits import DIFFERENCES, MergeTraits
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError
from polyrhythm.merge.total import count, sum_of


@dataclass(frozen=True, slots=True)
@checked
class SquareRootScaling:
    """The mean over workers, the learning rate multiplied by √(λ μ / B) (Gupta, Zhang, Wang, ICDM 2016, for hardsync).

    λ μ are the samples of a step of all λ learners, B those for which the rate was chosen. `factor` is λ μ / B; without one B is the batch
    of one learner, and it is λ.
    """

    traits: ClassVar = MergeTraits(DIFFERENCES, averages=True)
    rule: ClassVar[None] = None

    factor: float | None = None

    def __post_init__(self) -> None:
        if self.factor is not None and not 0 < self.factor < float("inf"):
            raise CompositionError(f"SquareRootScaling(factor={self.factor}) would not train: give a positive factor, or leave it out.")

    def scale(self, step: int, workers: int) -> float:
        return sqrt(workers if self.factor is None else self.factor)

    def combine(self, contributions: Sequence[AnyContribution], context: ExchangeContext) -> Direction:
        """The mean of a group of c, with the learning rate times c / P and the square root."""
        workers = context.group.size
        return Direction(sum_of(contributions), count(contributions), workers / self.scale(context.clock, workers))
