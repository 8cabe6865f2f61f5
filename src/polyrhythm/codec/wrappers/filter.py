"""Filters: some elements of a value become zero before another codec encodes it.

KKT and RandomSkip are such.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

import torch
from torch import Tensor

from polyrhythm.codec.wrappers.wrapper import InnerStep, WrapperCodec
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.nested import zeros
from polyrhythm.core.tensors import Layout, State

_DROPPED = "dropped"


class FilterCodec(WrapperCodec, Protocol):
    """A codec that drops elements, and encodes the rest by `inner`. A member has `traits` and `kept`.

    State: that of the inner codec, and under "dropped" (2,), as float64, the number of elements dropped and the sum of their magnitudes.
    """

    @abstractmethod
    def kept(self, value: Tensor, context: ExchangeContext) -> Tensor:
        """`value` (numel,), or a copy with zeros in place of what is dropped."""

    def initial(self, layout: Layout) -> State:
        """The inner codec's state, and counts of zero."""
        return {**self.inner.initial(layout), _DROPPED: torch.zeros(2, dtype=torch.float64)}

    def inside(self, value: Tensor, state: State, context: ExchangeContext) -> InnerStep:
        kept = self.kept(value, context)
        lost = (value - kept).abs()
        dropped = torch.tensor([float((lost > 0).sum()), float(lost.sum(dtype=torch.float64))], dtype=torch.float64)
        return InnerStep(kept, state, lambda sent, inner: {**inner, _DROPPED: state[_DROPPED] + dropped})

    def residual(self, state: State, layout: Layout) -> Tensor:
        return self.inner.residual(state, layout)

    def joined(self, state: State, layout: Layout) -> State:
        """The inner codec's, and counts of zero."""
        return {**self.inner.joined(state, layout), **zeros(state, _DROPPED)}

    def inherit(self, state: State, residual: Tensor, layout: Layout) -> State:
        return {**state, **self.inner.inherit(state, residual, layout)}
