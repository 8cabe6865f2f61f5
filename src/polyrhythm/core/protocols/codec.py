"""Protocol of codecs: an aggregation that sums the values of all workers, and packets for most of them.

Members are in `codec`. The channels of topologies call them, at workers and at servers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import AllGatherRequest, CollectiveRequest, Packet
from polyrhythm.core.protocols.traits import CodecTraits
from polyrhythm.core.tensors import Layout, State


@dataclass(frozen=True, slots=True)
class Encoded:
    """An encoded value: the packet, the value that every receiver decodes from it (numel,), and the next state."""

    packet: Packet
    sent: Tensor
    state: State


@dataclass(frozen=True, slots=True)
class Aggregated:
    """The end of an aggregation: the sum of all that was sent (numel,), this worker's part of it (numel,), and the next state."""

    total: Tensor
    sent: Tensor
    state: State


Aggregation = Generator[CollectiveRequest, Any, Aggregated]


class Codec(Protocol):
    """Encodes a flat vector (numel,) of some layout. Settings are frozen; `state` is an argument and part of the result.

    Law: what was sent plus the residual equals what was given, per coordinate, unless it is lossy.
    """

    @property
    @abstractmethod
    def traits(self) -> CodecTraits:
        """The properties that composition checks."""

    @abstractmethod
    def initial(self, layout: Layout) -> State:
        """The state before anything was sent."""

    @abstractmethod
    def aggregate(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
        """Make the requests that are needed to sum the values of all workers."""

    @abstractmethod
    def residual(self, state: State, layout: Layout) -> Tensor:
        """The residual (numel,): values that were given before and are not sent yet."""

    @abstractmethod
    def joined(self, state: State, layout: Layout) -> State:
        """The state of a worker that joins one with `state`: what must be equal at all, and no residual."""

    @abstractmethod
    def inherit(self, state: State, residual: Tensor, layout: Layout) -> State:
        """`state` with the `residual` (numel,) of a worker that has left added to its own."""


class PacketCodec(Codec, Protocol):
    """A codec that can encode a vector in one packet, as every pattern but the collective one needs."""

    @property
    @abstractmethod
    def width(self) -> int:
        """The number of tensors in a packet."""

    @abstractmethod
    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """Encode `value` in one packet."""

    @abstractmethod
    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        """The value of a packet (numel,), with the same bits at every receiver."""


class WithoutResidual(Protocol):
    """The part of a `Codec` that keeps nothing back for later: what its state has, if anything, is of use to a worker that joins."""

    def residual(self, state: State, layout: Layout) -> Tensor:
        """Zeros: nothing is kept for later."""
        return torch.zeros(layout.numel)

    def joined(self, state: State, layout: Layout) -> State:
        """The same state."""
        return state

    def inherit(self, state: State, residual: Tensor, layout: Layout) -> State:
        """The same state: a worker with the same codec has left nothing."""
        assert not residual.any(), f"{self} keeps nothing back"
        return state


class StatelessCodec(WithoutResidual, PacketCodec, Protocol):
    """A codec of packets that keeps nothing, and whose packets are gathered and summed: a member has `width`, `encode` and `decode`."""

    def initial(self, layout: Layout) -> State:
        """An empty state, for every layout."""
        return {}

    def aggregate(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
        """The packets of all workers, decoded and summed."""
        return gather_and_sum(self, value, layout, state, context)


def taken_over(codec: Codec, states: Sequence[State], layouts: Sequence[Layout], own: bool) -> list[State]:
    """The states of parts of `layouts` with which a worker continues: its `own`, or those of one that it joins."""
    return [state if own else codec.joined(state, layout) for state, layout in zip(states, layouts, strict=True)]


def inherited(codec: Codec, states: Sequence[State], layouts: Sequence[Layout], residuals: Sequence[Tensor]) -> list[State]:
    """The states of parts of `layouts`, each with the residual (numel of its part,) of a worker that has left."""
    return [codec.inherit(*each) for each in zip(states, residuals, layouts, strict=True)]


def packets(codec: Codec) -> PacketCodec:
    """`codec` as one that makes packets; composition has ensured that it does."""
    assert codec.traits.makes_packets, f"{codec} was composed where packets are needed"
    return cast(PacketCodec, codec)


def gather_and_sum(codec: PacketCodec, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
    """The aggregation of a codec that makes packets: all packets are gathered, decoded, and summed in rank order."""
    encoded = codec.encode(value, layout, state, context)
    packets: list[Packet] = yield AllGatherRequest(encoded.packet)
    total = codec.decode(packets[0], layout)
    for packet in packets[1:]:
        total = total + codec.decode(packet, layout)
    return Aggregated(total, encoded.sent, encoded.state)
