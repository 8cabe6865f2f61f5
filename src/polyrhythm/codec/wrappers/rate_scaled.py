"""Multiply values by the learning rate before they are encoded and accumulated."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from polyrhythm.codec.wrappers.wrapper import InnerStep, WrapperCodec
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.codec import Codec
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.traits import CodecTraits
from polyrhythm.core.tensors import Layout, State


@dataclass(frozen=True, slots=True)
class RateScaled(WrapperCodec):
    """Multiply a value by the learning rate of the worker's optimizer, then encode it by `inner` (as the authors' code of DeMo does).

    A momentum in `inner` then holds each gradient at the rate of its step, whatever a schedule does to later ones. The rate is that of
    the first parameter group, as for the optimizers of merges.
    """

    inner: Codec

    @property
    def traits(self) -> CodecTraits:
        """The inner codec's traits, for collectives only, because servers do not see the rate before the value comes."""
        traits = self.inner.traits
        return replace(traits, transforms=True, verbatim=False, requires=traits.requires | {Capability.COLLECTIVES})

    def initial(self, layout: Layout) -> State:
        return self.inner.initial(layout)

    def inside(self, value: Tensor, state: State, context: ExchangeContext) -> InnerStep:
        rates = context.rates()
        return InnerStep(value * rates[0] if rates else value, state, lambda sent, inner: inner)

    def residual(self, state: State, layout: Layout) -> Tensor:
        return self.inner.residual(state, layout)

    def joined(self, state: State, layout: Layout) -> State:
        return self.inner.joined(state, layout)

    def inherit(self, state: State, residual: Tensor, layout: Layout) -> State:
        return self.inner.inherit(state, residual, layout)
