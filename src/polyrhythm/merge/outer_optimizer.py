"""An optimizer at whoever holds the weights, which takes what workers say for a gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from polyrhythm.merge.mean import Mean
from polyrhythm.pieces.merge import AnyContribution, Direction, Merge, Rule
from polyrhythm.pieces.traits import DIFFERENCES, MergeTraits


@dataclass(frozen=True, slots=True)
class OuterOptimizer:
    """Combine contributions as `inner` does, then let `rule` step.

    With updates the direction is a pseudo-gradient (FedOpt, Reddi et al., 2021; DiLoCo, Douillard et al., 2023); with
    gradients at a server it is the server's own optimizer (DistBelief; Dean et al., 2012).
    """

    traits: ClassVar = MergeTraits(DIFFERENCES)

    rule: Rule
    inner: Merge = field(default_factory=Mean)

    def scale(self, workers: int) -> None:
        """Another optimizer steps."""
        return

    def combine(self, contributions: Sequence[AnyContribution], workers: int) -> Direction:
        """As the inner merge."""
        return self.inner.combine(contributions, workers)

    def mix(self, mine: Tensor, theirs: Sequence[Tensor], workers: int) -> Tensor:
        """Never asked for: an optimizer takes differences."""
        raise NotImplementedError("OuterOptimizer does not accept weights")
