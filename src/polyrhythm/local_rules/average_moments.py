"""Averaging of the optimizers' states: momentum and second moments continue from their mean over the workers."""

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

    Momentum, second moments and step counts are summed uncompressed, without the exchange's codec, after a number for each parameter,
    which adds as many bytes as they have. Where a parameter had no gradient yet, its state counts as zeros.
    """

    traits: ClassVar = LocalTraits(LOCAL, corrects=False, settles=False, averages=True)
    mixing: ClassVar[None] = None

    def initial(self, layout: Layout) -> State:
        return {}

    def correct(self, gradient: Tensor, context: ExchangeContext, state: State) -> Tensor:
        return gradient

    def settle(self, context: ExchangeContext, state: State, moments: Moments) -> State:
        return state

    def go_on(self, agreed: Tensor, own: Tensor, sent: Tensor) -> Tensor:
        return agreed

    def figures(self, state: State) -> Mapping[str, float]:
        return {}
