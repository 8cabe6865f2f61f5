"""An outer optimizer: it runs where the weights are held, and takes contributions as gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.merge import AnyContribution, DifferenceMerge, Direction, Rule
from polyrhythm.core.protocols.traits import DIFFERENCES, MergeTraits
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError
from polyrhythm.merge.mean import Mean


@dataclass(frozen=True, slots=True)
@checked
class OuterOptimizer:
    """Combine contributions as `inner` does, then let `rule` step.

    With updates the direction is a pseudo-gradient (FedOpt, Reddi et al., 2021; DiLoCo, Douillard et al., 2023); with
    gradients at a server it is the server's own optimizer (DistBelief; Dean et al., 2012).
    """

    rule: Rule
    inner: DifferenceMerge = field(default_factory=Mean)

    def __post_init__(self) -> None:
        if not self.inner.traits.payloads & DIFFERENCES:
            raise CompositionError(
                f"OuterOptimizer(inner={self.inner}) has no direction to step along: {type(self.inner).__name__} merges weights only. "
                "Give it a merge of gradients or updates, such as Mean()."
            )
        if self.inner.rule is not None:
            raise CompositionError(
                f"OuterOptimizer(inner={self.inner}) would leave one of two optimizers out: give it a merge without one, such as Mean()."
            )

    @property
    def traits(self) -> MergeTraits:
        """The requirements of the inner merge."""
        return MergeTraits(DIFFERENCES, self.inner.traits.requires)

    def combine(self, contributions: Sequence[AnyContribution], context: ExchangeContext) -> Direction:
        return self.inner.combine(contributions, context)
