"""The mean over workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from polyrhythm.merge.total import total
from polyrhythm.pieces.merge import Part, Rule
from polyrhythm.pieces.terms import EVERY_SUBJECT, Subject


@dataclass(frozen=True, slots=True)
class Mean:
    """Every worker's contribution counts 1 / P, so that a round of all of them moves the weights by their mean.

    Weights are averaged with those of whoever one meets, oneself included.
    """

    @property
    def accepts(self) -> frozenset[Subject]:
        """Anything."""
        return EVERY_SUBJECT

    @property
    def rule(self) -> Rule | None:
        """None: the step is left to the optimizer."""
        return None

    def divisor(self, workers: int) -> float:
        """The number of workers."""
        return workers

    def combine(self, contributions: Sequence[Part], workers: int) -> Tensor:
        """Σ value / P."""
        return total(contribution.value for contribution in contributions) / workers

    def mix(self, mine: Tensor, theirs: Sequence[Tensor], workers: int) -> Tensor:
        """(mine + Σ theirs) / (1 + n)."""
        mixed = mine + theirs[0]
        for other in theirs[1:]:
            mixed += other
        return mixed.div_(1 + len(theirs))
