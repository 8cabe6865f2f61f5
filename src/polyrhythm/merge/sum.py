"""The sum over workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from polyrhythm.merge.total import total
from polyrhythm.pieces.merge import Part, Rule
from polyrhythm.pieces.terms import DIFFERENCES, Subject


@dataclass(frozen=True, slots=True)
class Sum:
    """Every contribution counts in full: P workers move the weights P times as far (Petuum; Xing et al., 2015).

    Choose the learning rate for the sum, or use Mean.
    """

    @property
    def accepts(self) -> frozenset[Subject]:
        """Differences: a sum of weights is no set of weights."""
        return DIFFERENCES

    @property
    def rule(self) -> Rule | None:
        """None: the step is left to the optimizer."""
        return None

    def divisor(self, workers: int) -> float:
        """Nothing is divided."""
        return 1.0

    def combine(self, contributions: Sequence[Part], workers: int) -> Tensor:
        """Σ value."""
        result = total(contribution.value for contribution in contributions)
        return result if len(contributions) > 1 else result.clone()

    def mix(self, mine: Tensor, theirs: Sequence[Tensor], workers: int) -> Tensor:
        """Never asked for: Sum does not accept weights."""
        raise NotImplementedError("Sum does not accept weights")
