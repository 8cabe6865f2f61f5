"""An optimizer that begins anew after each exchange."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from polyrhythm.pieces.context import ExchangeContext
from polyrhythm.pieces.traits import LOCAL, LocalTraits
from polyrhythm.tensors import Layout, State


@dataclass(frozen=True, slots=True)
class ResetMoments:
    """Sets the worker's momentum, second moments and step counts to zero after each exchange (as SlowMo may; Wang et al., ICLR 2020)."""

    traits: ClassVar = LocalTraits(LOCAL, corrects=False, settles=True)

    def initial(self, layout: Layout) -> State:
        """None."""
        return {}

    def correct(self, gradient: Tensor, context: ExchangeContext, state: State) -> Tensor:
        """As it is."""
        return gradient

    def settle(self, context: ExchangeContext, state: State, moments: Sequence[Tensor]) -> State:
        """Zero them."""
        for moment in moments:
            moment.zero_()
        return state
