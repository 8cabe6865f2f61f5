"""An optimizer that goes on from what all optimizers together remember."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.local import Moments
from polyrhythm.core.protocols.traits import LOCAL, LocalTraits
from polyrhythm.core.tensors import Layout, State


@dataclass(frozen=True, slots=True)
class AverageMoments:
    """After each exchange the optimizers' states are averaged over the workers (the updater of DL4J's ParameterAveraging; Skymind, 2014).

    Momentum, second moments and step counts go as they are, without the exchange's codec: as many bytes more as they have, by
    the same sums, and before them a number for each parameter. Where a parameter had no gradient yet, its state counts as zeros.
    """

    traits: ClassVar = LocalTraits(LOCAL, corrects=False, settles=False, averages=True)
    mixing: ClassVar[None] = None

    def initial(self, layout: Layout) -> State:
        """None."""
        return {}

    def correct(self, gradient: Tensor, context: ExchangeContext, state: State) -> Tensor:
        """As it is."""
        return gradient

    def settle(self, context: ExchangeContext, state: State, moments: Moments) -> State:
        """Nothing is remembered."""
        return state

    def go_on(self, agreed: Tensor, own: Tensor, sent: Tensor) -> Tensor:
        """From what was agreed on."""
        return agreed

    def figures(self, state: State) -> Mapping[str, float]:
        """None."""
        return {}
