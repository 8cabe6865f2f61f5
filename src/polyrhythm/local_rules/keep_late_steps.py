"""Steps that were taken while an exchange was under way are not lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.local import Moments
from polyrhythm.core.protocols.traits import LocalTraits, Payload
from polyrhythm.core.tensors import Layout, State


@dataclass(frozen=True, slots=True)
class KeepLateSteps:
    """After a delayed exchange a worker goes on from what was agreed on and the steps that it has taken since it sent its update.

    So no step is lost, and they are in its next update (CoCoD-SGD; Shen et al., IJCAI 2019, algorithm 1). Without a delay there are none,
    and it is as `PlainSteps`.
    """

    traits: ClassVar = LocalTraits(frozenset({Payload.UPDATE}), corrects=False, settles=False, goes_on=True)
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
        """What was agreed on, and w - w of then."""
        return agreed + (own - sent)

    def figures(self, state: State) -> Mapping[str, float]:
        """None."""
        return {}
