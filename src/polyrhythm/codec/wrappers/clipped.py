"""Clip a worker's own value before it is encoded."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from polyrhythm.core.protocols.codec import Aggregation, Codec, Encoded, packets
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.traits import CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class Clipped:
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
        """As the inner codec's, of other values."""
        return replace(self.inner.traits, transforms=True, verbatim=False)

    @property
    def width(self) -> int:
        """As the inner codec."""
        return packets(self.inner).width

    def initial(self, layout: Layout) -> State:
        """The inner codec's."""
        return self.inner.initial(layout)

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """The inner codec's packet of the clipped value."""
        return packets(self.inner).encode(self._clip(value, context), layout, state, context)

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        """As the inner codec."""
        return packets(self.inner).decode(packet, layout)

    def aggregate(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
        """The inner codec's aggregation of the clipped value."""
        return self.inner.aggregate(self._clip(value, context), layout, state, context)

    def residual(self, state: State, layout: Layout) -> Tensor:
        """The inner codec's."""
        return self.inner.residual(state, layout)

    def _clip(self, value: Tensor, context: ExchangeContext) -> Tensor:
        most = self.norm / context.group.size**0.5
        found = float(torch.linalg.vector_norm(value))
        return value * (most / found) if found > most else value
