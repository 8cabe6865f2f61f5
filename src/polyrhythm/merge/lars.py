"""Layer-wise adaptive rate scaling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.merge import AnyContribution, DifferenceMerge, Direction
from polyrhythm.core.protocols.traits import GRADIENTS, MergeTraits
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError
from polyrhythm.merge.mean import Mean
from polyrhythm.merge.trust_ratios import scaled_by_layer


@dataclass(frozen=True, slots=True)
@checked
class LARS:
    """Multiply the merged gradient of each tensor by trust ‖w‖ / (‖g‖ + β ‖w‖), β the weight decay (LARS; You, Gitman, Ginsburg, 2017).

    So each layer moves by about the same part of its norm, and the learning rate of the user's optimizer, SGD in the paper, multiplies all.
    `weight_decay` is given here and not to the optimizer, which would add it after the scaling. `inner` merges: Mean(), or LinearScaling().
    Raises CompositionError where gradients are not what `inner` averages.
    """

    traits: ClassVar = MergeTraits(GRADIENTS, frozenset({Capability.LAYERS}))
    rule: ClassVar[None] = None

    trust: float = 0.001
    weight_decay: float = 0.0
    inner: DifferenceMerge = field(default_factory=Mean)

    def __post_init__(self) -> None:
        check_trust(self, self.trust, self.weight_decay, self.inner)

    def combine(self, contributions: Sequence[AnyContribution], context: ExchangeContext) -> Direction:
        """The inner merge's direction, scaled layer by layer."""
        return scaled_by_layer(self.inner.combine(contributions, context), context, self.trust, self.weight_decay, float)


def check_trust(merge: object, trust: float, weight_decay: float, inner: DifferenceMerge) -> None:
    """Raise CompositionError for settings of `merge` that cannot work."""
    if not (trust > 0 and weight_decay >= 0):
        raise CompositionError(
            f"{merge} cannot step: trust must be positive (papers take 0.001 for LARS, and 0.02 for LARC), weight_decay at least 0."
        )
    if not inner.traits.averages:
        raise CompositionError(f"{merge} scales the mean of gradients, and {inner} is none: give it Mean() or LinearScaling(...).")
