"""The mean over samples: a worker that computed on more of them counts more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul
from typing import ClassVar

from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.merge import AnyContribution, Direction
from polyrhythm.core.protocols.traits import DIFFERENCES, MergeTraits
from polyrhythm.merge.total import count, total


@dataclass(frozen=True, slots=True)
class SampleMean:
    """The mean of a group of contributions, each weighted by n_k / n, its samples by those of the group (McMahan et al., 2017, alg. 1).

    It is over the group, not over all workers: those that were not chosen for a round are not in it. With equal samples, and where no
    sample counts are known, it is the plain mean of the group.
    """

    traits: ClassVar = MergeTraits(DIFFERENCES, frozenset({Capability.SAMPLES}))
    rule: ClassVar[None] = None

    def combine(self, contributions: Sequence[AnyContribution], context: ExchangeContext) -> Direction:
        """Σ n_k value_k / n, with the learning rate as it is."""
        weights = shares([each.samples for each in contributions])
        values = (each.value if weight == 1 else each.value * weight for each, weight in zip(contributions, weights, strict=True))
        weight = sum(map(mul, weights, (each.count for each in contributions)))
        return Direction(total(values), weight, count(contributions))


def shares(samples: Sequence[float]) -> list[float]:
    """Weights in proportion to `samples`, with a mean of 1; a count of 0 is unknown, and gets the weight 1."""
    known = [each for each in samples if each > 0]
    if not known:
        return [1.0] * len(samples)
    mean = sum(known) / len(known)
    return [each / mean if each > 0 else 1.0 for each in samples]
