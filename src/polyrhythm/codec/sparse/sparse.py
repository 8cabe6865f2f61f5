"""Sparse codecs: packets of some elements, each with its index, and their aggregation.

TopK, RandomK, Threshold and the other codecs of this package are such.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from polyrhythm.core.protocols.codec import Aggregated, Aggregation, Encoded, PacketCodec, WithoutResidual
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import AllGatherRequest, Packet
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError

Entries = tuple[Tensor, Tensor]
"""Indices (k,), int64, none of them twice, and values (k,)."""

MOST = 2**31
"""The number of elements that 31-bit indices can address."""


class SparseCodec(WithoutResidual, PacketCodec, Protocol):
    """A codec whose packets hold a few elements; the others are zero. A member has `width`, `initial`, `encode`, `decode`, `entries`."""

    @abstractmethod
    def entries(self, packet: Packet) -> Entries:
        """The elements that a packet has, without the zeros."""

    def aggregate(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
        """The sum of all workers' packets in rank order, adding only the elements sent: P packets cost their length, not P · numel."""
        encoded = self.encode(value, layout, state, context)
        packets: list[Packet] = yield AllGatherRequest(encoded.packet)
        total = spread(self.entries(packets[0]), layout)
        for packet in packets[1:]:
            total.index_add_(0, *self.entries(packet))
        return Aggregated(total, encoded.sent, encoded.state)


class ChosenElements(SparseCodec, Protocol):
    """A sparse codec that sends elements as they are, each as an int32 index and its value. A member chooses them, without a state."""

    width: ClassVar[int] = 2
    """The indices, and the values."""

    @abstractmethod
    def choose(self, value: Tensor, layout: Layout, context: ExchangeContext) -> Tensor:
        """The indices (k,) of the elements to send, increasing, so that receivers walk memory forwards."""

    def initial(self, layout: Layout) -> State:
        """No state. Raises CompositionError for more than 2³¹ elements."""
        check_size(type(self).__name__, layout)
        return {}

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """The chosen elements with their indices."""
        indices = self.choose(value, layout, context)
        packet = (indices.to(torch.int32), value.index_select(0, indices))
        return Encoded(packet, self.decode(packet, layout), state)

    def entries(self, packet: Packet) -> Entries:
        indices, values = packet
        return indices.long(), values

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        """The elements of the packet, and zeros elsewhere."""
        return spread(self.entries(packet), layout)


def check_share(name: str, ratio: float) -> None:
    """Raise CompositionError unless 0 < `ratio` <= 1."""
    if not 0 < ratio <= 1:
        raise CompositionError(
            f"{name}(ratio={ratio}) sends nothing or more than all: ratio is a part of the elements, above 0 and at most 1."
        )


def check_size(name: str, layout: Layout) -> None:
    """Raise CompositionError where indices would not fit into 31 bits."""
    if layout.numel > MOST:
        raise CompositionError(
            f"{name} names elements by 31 bits, and {layout.numel:,} elements are more than {MOST:,}: "
            f"cut the model, with PerTensor({name}(…)) or over several servers."
        )


def share(ratio: float, numel: int) -> int:
    """⌈ratio · numel⌉, where 0.07 of 100 is 7 although the product of the two floats lies above it."""
    return min(numel, max(1, math.ceil(round(ratio * numel, 6))))


def drawn(draw: np.random.Generator, ratio: float, numel: int) -> Tensor:
    """The indices, increasing, of ⌈ratio · numel⌉ elements that are drawn uniformly without repetition."""
    return torch.from_numpy(np.sort(draw.choice(numel, share(ratio, numel), replace=False, shuffle=False)) if numel else np.arange(0))


def spread(entries: Entries, layout: Layout) -> Tensor:
    """A vector (numel,) with the entries at their indices, and zeros elsewhere."""
    indices, values = entries
    return values.new_zeros(layout.numel).index_copy_(0, indices, values)
