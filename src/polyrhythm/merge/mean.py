"""The mean over workers: the default merge.

`OuterOptimizer`, `LARS`, `LARC` and `ProximalSGD` combine contributions with it by default.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.merge import AnyContribution, Direction
from polyrhythm.core.protocols.traits import EVERY_PAYLOAD, MergeTraits
from polyrhythm.merge.total import count, sum_of


@dataclass(frozen=True, slots=True)
class Mean:
    """Every worker's contribution counts 1 / P, so that a round of all of them moves the weights as far as one step on their mean.

    Weights are averaged over a worker and the others in an exchange; in push-sum, weighted by their masses.
    """

    traits: ClassVar = MergeTraits(EVERY_PAYLOAD, frozenset({Capability.VALUES}), averages=True)
    rule: ClassVar[None] = None

    def scale(self, step: int, workers: int) -> float:
        return 1.0

    def combine(self, contributions: Sequence[AnyContribution], context: ExchangeContext) -> Direction:
        """The mean of a group of c, with the learning rate times c / P; Σ value / P without one."""
        return Direction(sum_of(contributions), count(contributions), context.group.size)

    def mix(self, mine: Tensor, theirs: Sequence[Tensor], context: ExchangeContext) -> Tensor:
        mixed = mine + theirs[0]
        for other in theirs[1:]:
            mixed += other
        return mixed.div_(1 + len(theirs))
