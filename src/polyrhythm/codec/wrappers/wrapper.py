"""Codecs that encode each value by another codec, after they have changed it.

Error feedback, momenta, clipping and filters are such.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from polyrhythm.core.protocols.codec import Aggregated, Aggregation, Codec, Encoded, PacketCodec, packets
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.tensors import Layout, State


@dataclass(frozen=True, slots=True)
class InnerStep:
    """The value that the inner codec encodes, and its state.

    `following` makes the wrapper's next state of what was sent and of the inner codec's next state.
    """

    value: Tensor
    state: State
    following: Callable[[Tensor, State], State]


class WrapperCodec(PacketCodec, Protocol):
    """A codec that changes a value, and encodes it by `inner`. A member has `traits`, `initial`, `inside` and `residual`."""

    inner: Codec

    @abstractmethod
    def inside(self, value: Tensor, state: State, context: ExchangeContext) -> InnerStep:
        """The step of the inner codec that encodes `value`."""

    @property
    def width(self) -> int:
        """The width of the inner codec's packets."""
        return packets(self.inner).width

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """The inner codec's packet of the changed value."""
        step = self.inside(value, state, context)
        encoded = packets(self.inner).encode(step.value, layout, step.state, context)
        return Encoded(encoded.packet, encoded.sent, step.following(encoded.sent, encoded.state))

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        return packets(self.inner).decode(packet, layout)

    def aggregate(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
        """The inner codec's aggregation of the changed value."""
        step = self.inside(value, state, context)
        aggregated = yield from self.inner.aggregate(step.value, layout, step.state, context)
        return Aggregated(aggregated.total, aggregated.sent, step.following(aggregated.sent, aggregated.state))
