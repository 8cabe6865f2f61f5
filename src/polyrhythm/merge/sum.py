"""The sum over workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from polyrhythm.merge.total import count, total
from polyrhythm.pieces.merge import AnyContribution, Direction, Rule
from polyrhythm.pieces.traits import DIFFERENCES, MergeTraits


@dataclass(frozen=True, slots=True)
class Sum:
    """Every contribution counts in full: P workers move the weights P times as far (Petuum; Xing et al., 2015).

    Where an optimizer steps it is the learning rate that is multiplied, so that Adam moves P times as far too. Choose the rate for the
    sum, or use Mean.
    """

    traits: ClassVar = MergeTraits(DIFFERENCES)

    @property
    def rule(self) -> Rule | None:
        """None: the step is left to the optimizer."""
        return None

    def scale(self, workers: int) -> float:
        """Everybody's mean counts once for each."""
        return workers

    def combine(self, contributions: Sequence[AnyContribution], workers: int) -> Direction:
        """The mean of a group of c, with the learning rate times c; Σ value without one."""
        return Direction(total(contribution.value for contribution in contributions), count(contributions), 1.0)

    def mix(self, mine: Tensor, theirs: Sequence[Tensor], workers: int) -> Tensor:
        """Never asked for: Sum does not accept weights."""
        raise NotImplementedError("Sum does not accept weights")
