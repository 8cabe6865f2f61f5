"""The optimizer's state is reset after each exchange."""

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
class ResetMoments:
    """The state of the worker's optimizer, such as momentum, is reset after each exchange (as SlowMo may; Wang et al., ICLR 2020)."""

    traits: ClassVar = LocalTraits(LOCAL, corrects=False, settles=True)
    mixing: ClassVar[None] = None

    def initial(self, layout: Layout) -> State:
        return {}

    def correct(self, gradient: Tensor, context: ExchangeContext, state: State) -> Tensor:
        return gradient

    def settle(self, context: ExchangeContext, state: State, moments: Moments) -> State:
        moments.reset()
        return state

    def go_on(self, agreed: Tensor, own: Tensor, sent: Tensor) -> Tensor:
        return agreed

    def figures(self, state: State) -> Mapping[str, float]:
        return {}
