"""Layer-wise adaptive rates that never exceed the optimizer's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.merge import AnyContribution, DifferenceMerge, Direction, rates_of
from polyrhythm.core.protocols.traits import GRADIENTS, MergeTraits
from polyrhythm.core.settings import checked
from polyrhythm.merge.lars import check_trust
from polyrhythm.merge.mean import Mean
from polyrhythm.merge.trust_ratios import scaled_by_layer


@dataclass(frozen=True, slots=True)
@checked
class LARC:
    """Step on each tensor with the smaller of the learning rate η and λ = trust ‖w‖ / (‖g‖ + β ‖w‖) (LARC; Kurth et al., 2018).

    The clipped form of `LARS`, in that the gradient is multiplied by min(λ / η, 1), so that no warm-up is needed. All parameters have one
    learning rate. `weight_decay` is given here and not to the optimizer. `inner` merges, and may multiply η: Mean(), or LinearScaling().
    Raises CompositionError where gradients are not what `inner` averages.
    """

    traits: ClassVar = MergeTraits(GRADIENTS, frozenset({Capability.LAYERS}), one_rate=True)
    rule: ClassVar[None] = None

    trust: float = 0.02
    weight_decay: float = 0.0
    inner: DifferenceMerge = field(default_factory=Mean)

    def __post_init__(self) -> None:
        check_trust(self, self.trust, self.weight_decay, self.inner)

    def combine(self, contributions: Sequence[AnyContribution], context: ExchangeContext) -> Direction:
        """The inner merge's direction, scaled layer by layer."""
        direction = self.inner.combine(contributions, context)
        rates = rates_of(contributions)
        limit = partial(_clipped, (rates[0] if rates else 1.0) * direction.scale)
        return scaled_by_layer(direction, context, self.trust, self.weight_decay, limit)


def _clipped(rate: float, ratio: float) -> float:
    """min(λ / η, 1); a rate of zero moves nothing, whatever it is multiplied by."""
    return min(ratio / rate, 1.0) if rate > 0 else 1.0
