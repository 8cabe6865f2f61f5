"""What a codec is: an aggregation in which the values of all workers are summed; and for most of them, packets."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Protocol, cast

from torch import Tensor

from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import AllGatherRequest, CollectiveRequest, Packet
from polyrhythm.core.protocols.traits import CodecTraits
from polyrhythm.core.tensors import Layout, State


@dataclass(frozen=True, slots=True)
class Encoded:
    """One value encoded: the packet, what every receiver will make of it (numel,), and the next state."""

    packet: Packet
    sent: Tensor
    state: State


@dataclass(frozen=True, slots=True)
class Aggregated:
    """The end of an aggregation: the sum of what all sent (numel,), my own part of it (numel,), and the next state."""

    total: Tensor
    sent: Tensor
    state: State


Aggregation = Generator[CollectiveRequest, Any, Aggregated]


class Codec(Protocol):
    """How a flat vector (numel,) of some layout is sent. Settings are frozen; `state` goes in and comes out.

    Law: what was sent plus the residual equals what was given, per coordinate, unless it is lossy.
    """

    @property
    def traits(self) -> CodecTraits:
        """What it declares of itself."""

    def initial(self, layout: Layout) -> State:
        """The state before anything was sent."""

    def aggregate(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
        """Make the requests that it takes to know the sum of the values of all workers."""

    def residual(self, state: State, layout: Layout) -> Tensor:
        """What was given before and is not sent yet (numel,)."""


class PacketCodec(Codec, Protocol):
    """A codec that can encode a vector in one packet, as every pattern but the collective one needs."""

    @property
    def width(self) -> int:
        """The number of tensors in a packet."""

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """Encode `value` in one packet."""

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        """The value of a packet (numel,); every receiver gets the same bits."""


def packets(codec: Codec) -> PacketCodec:
    """`codec` as one that makes packets, which composition has made sure of."""
    assert codec.traits.makes_packets, f"{codec} was composed where packets are needed"
    return cast(PacketCodec, codec)


def gather_and_sum(codec: PacketCodec, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
    """The aggregation of a codec that makes packets: those of all, decoded and summed in rank order."""
    encoded = codec.encode(value, layout, state, context)
    packets: list[Packet] = yield AllGatherRequest(encoded.packet)
    total = codec.decode(packets[0], layout)
    for packet in packets[1:]:
        total = total + codec.decode(packet, layout)
    return Aggregated(total, encoded.sent, encoded.state)
