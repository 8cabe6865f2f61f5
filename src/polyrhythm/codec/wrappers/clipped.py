"""Clip the norm of a worker's own value before it is encoded."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from polyrhythm.codec.wrappers.wrapper import InnerStep, WrapperCodec
from polyrhythm.core.protocols.codec import Codec
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.traits import CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class Clipped(WrapperCodec):
    """Scale a value down to a norm of `norm` / √P, then encode it by `inner` (local gradient clipping; Lin et al., 2018, section 3.2).

    If the values of P workers are independent, their sum has a norm of about `norm` then.
    """

    norm: float
    inner: Codec

    def __post_init__(self) -> None:
        if not self.norm > 0:
            raise CompositionError(f"Clipped(norm={self.norm}) leaves nothing: give a positive norm.")

    @property
    def traits(self) -> CodecTraits:
        """The inner codec's traits, with `transforms`: the values that it encodes are not those that were given."""
        return replace(self.inner.traits, transforms=True, verbatim=False)

    def initial(self, layout: Layout) -> State:
        return self.inner.initial(layout)

    def inside(self, value: Tensor, state: State, context: ExchangeContext) -> InnerStep:
        most = self.norm / context.group.size**0.5
        found = float(torch.linalg.vector_norm(value))
        return InnerStep(value * (most / found) if found > most else value, state, lambda sent, inner: inner)

    def residual(self, state: State, layout: Layout) -> Tensor:
        return self.inner.residual(state, layout)

    def joined(self, state: State, layout: Layout) -> State:
        return self.inner.joined(state, layout)

    def inherit(self, state: State, residual: Tensor, layout: Layout) -> State:
        return self.inner.inherit(state, residual, layout)
