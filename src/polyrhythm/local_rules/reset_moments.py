"""The optimizer's state is reset after each exchange."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.local import LocalHooks, Moments
from polyrhythm.core.protocols.traits import LOCAL, LocalTraits
from polyrhythm.core.tensors import State


@dataclass(frozen=True, slots=True)
class ResetMoments:
    """The state of the worker's optimizer, such as momentum, is reset after each exchange (as SlowMo may; Wang et al., ICLR 2020)."""

    traits: ClassVar = LocalTraits(LOCAL)

    @property
    def hooks(self) -> LocalHooks:
        return LocalHooks(settle=self.settle)

    def settle(self, context: ExchangeContext, state: State, moments: Moments) -> State:
        moments.reset()
        return state
