"""A worker that does not give up its own weights for those that were agreed on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.local import Moments
from polyrhythm.core.protocols.traits import LocalTraits, Payload
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class KeepOwn:
    """After an exchange a worker goes on from α w + (1 - α) z: α = `part` of its own weights, the rest what was agreed on.

    (Streaming DiLoCo; Douillard et al., 2025, section 2.3.) What was agreed on is the result, and the next update counts from there.
    """

    mixing: ClassVar[None] = None

    part: float

    def __post_init__(self) -> None:
        if not 0 <= self.part <= 1:
            raise CompositionError(f"KeepOwn({self.part}) is no part of a worker's weights: give 0 (none) to 1 (all of them).")

    @property
    def traits(self) -> LocalTraits:
        """For updates: weights that are exchanged as they are leave nothing that all have agreed on."""
        return LocalTraits(frozenset({Payload.UPDATE}), corrects=False, settles=False, goes_on=True)

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
        """α w + (1 - α) z."""
        return torch.lerp(agreed, own, self.part)

    def figures(self, state: State) -> Mapping[str, float]:
        """None."""
        return {}
