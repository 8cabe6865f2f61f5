"""The sum over workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.merge import AnyContribution, Direction
from polyrhythm.core.protocols.traits import DIFFERENCES, MergeTraits, Payload
from polyrhythm.merge.total import count, sum_of


@dataclass(frozen=True, slots=True)
class Sum:
    """Every contribution counts in full: P workers move the weights P times as far (Petuum; Xing et al., 2015).

    With an optimizer its learning rate is multiplied, so that Adam moves P times as far too. Choose the rate for the sum, or use Mean.
    Steps on weights in shared memory add up in the same way.
    """

    traits: ClassVar = MergeTraits(DIFFERENCES | {Payload.NOTHING}, frozenset(), averages=True)
    rule: ClassVar[None] = None

    def scale(self, step: int, workers: int) -> float:
        return float(workers)

    def combine(self, contributions: Sequence[AnyContribution], context: ExchangeContext) -> Direction:
        """The mean of a group of c, with the learning rate times c; Σ value without one."""
        return Direction(sum_of(contributions), count(contributions), 1.0)
