"""Stale contributions count less, in inverse proportion to their staleness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.merge import AnyContribution, Direction
from polyrhythm.core.protocols.traits import DIFFERENCES, MergeTraits
from polyrhythm.merge.total import count, total


@dataclass(frozen=True, slots=True)
class StalenessScaled:
    """The mean of a group, the learning rate of each contribution divided by max(1, its staleness) (Zhang, Gupta, Lian, Liu, 2016, eq. 5).

    Staleness is the number of merges between reading the weights and merging a gradient computed on them. The mean
    is over the group, not over all workers: a group is one step. The learning rate is scaled, as in the paper; under plain SGD this
    equals scaling the gradients, under an adaptive optimizer it does not.
    """

    traits: ClassVar = MergeTraits(DIFFERENCES, averages=True)
    rule: ClassVar[None] = None

    def scale(self, step: int, workers: int) -> float:
        return 1.0

    def combine(self, contributions: Sequence[AnyContribution], context: ExchangeContext) -> Direction:
        """The mean with weights 1 / max(1, staleness), and the learning rate times the mean weight.

        Without a learning rate: Σ value / max(1, staleness), over the size of the group.
        """
        scaled = (contribution.value / max(1, contribution.staleness) for contribution in contributions)
        weight = sum(contribution.count / max(1, contribution.staleness) for contribution in contributions)
        return Direction(total(scaled), weight, count(contributions))
