"""The linear scaling rule, with a gradual warm-up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.merge import AnyContribution, Direction
from polyrhythm.core.protocols.traits import DIFFERENCES, MergeTraits
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError
from polyrhythm.merge.total import count, sum_of


@dataclass(frozen=True, slots=True)
@checked
class LinearScaling:
    """The mean over workers, the learning rate multiplied by k, to which it grows over `warmup` steps (Goyal et al., 2017, section 2.2).

    At step t the rate is η (1 + (k - 1) min(1, (t - 1) / warmup)): η at the first step, k η after the last of the warm-up; without one,
    k η from the beginning. k is the number of workers that exchange, or `factor`: in a hierarchy the former is that of the groups. Weight
    decay is not scaled, as it would be by a larger loss, and momentum needs no correction in PyTorch's form, where the rate multiplies it.
    A schedule of the training function multiplies the same rate.
    """

    traits: ClassVar = MergeTraits(DIFFERENCES, averages=True)
    rule: ClassVar[None] = None

    warmup: int = 0
    factor: float | None = None

    def __post_init__(self) -> None:
        if not self.warmup >= 0:
            raise CompositionError(f"LinearScaling(warmup={self.warmup}) is no number of steps: give 0 or more.")
        if self.factor is not None and not self.factor > 0:
            raise CompositionError(f"LinearScaling(factor={self.factor}) would not train: give a positive factor, or leave it out.")

    def combine(self, contributions: Sequence[AnyContribution], context: ExchangeContext) -> Direction:
        """The mean of a group of c, with the learning rate times c / P and the scale of this step."""
        step = max(contribution.clock for contribution in contributions) or context.clock  # a sum has no clock
        scale = self.scale(step, context.group.size)
        return Direction(sum_of(contributions), count(contributions), context.group.size / scale)

    def scale(self, step: int, workers: int) -> float:
        """The factor of the learning rate at `step`, from 1, with so many workers.

        Examples:
            >>> [LinearScaling(warmup=4).scale(step, workers=8) for step in (1, 3, 5, 100)]
            [1.0, 4.5, 8.0, 8.0]
        """
        k = float(workers if self.factor is None else self.factor)
        done = min(1.0, max(0, step - 1) / self.warmup) if self.warmup else 1.0
        return 1 + (k - 1) * done


EXAMPLES = (LinearScaling(), LinearScaling(warmup=8))
