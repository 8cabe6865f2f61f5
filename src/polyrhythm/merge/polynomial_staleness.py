"""Stale contributions count less, by a power of their staleness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.merge import AnyContribution, Direction
from polyrhythm.core.protocols.traits import DIFFERENCES, MergeTraits
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError
from polyrhythm.merge.total import count, total


@dataclass(frozen=True, slots=True)
@checked
class PolynomialStaleness:
    """The mean of a group, each contribution times (1 + its staleness)^-power (FedBuff; Nguyen et al., AISTATS 2022, section 5).

    Staleness is the number of merges since the weights were read. The mean is over the group, not over all workers: a group is one step.
    The paper takes a power of 1/2.
    """

    traits: ClassVar = MergeTraits(DIFFERENCES, averages=True)
    rule: ClassVar[None] = None

    power: float = 0.5

    def __post_init__(self) -> None:
        if not self.power >= 0:
            raise CompositionError(f"{self!r} would have late contributions count more: give a power of 0 (all count alike) or more.")

    def scale(self, step: int, workers: int) -> float:
        return 1.0

    def combine(self, contributions: Sequence[AnyContribution], context: ExchangeContext) -> Direction:
        """Σ value (1 + staleness)^-power, over the size of the group; with an optimizer the learning rate times the mean weight."""
        scaled = (each.value * (1 + each.staleness) ** -self.power if each.staleness else each.value for each in contributions)
        weight = sum(each.count * (1 + each.staleness) ** -self.power for each in contributions)
        return Direction(total(scaled), weight, count(contributions))
