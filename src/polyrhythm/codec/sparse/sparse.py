"""The parts that sparse codecs share: packets of some elements, each with its index, and their aggregation.

TopK, RandomK, Threshold and the other codecs of this package call them.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyrhythm.core.protocols.codec import Aggregated, Aggregation, PacketCodec
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import AllGatherRequest, Packet
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError

Entries = tuple[Tensor, Tensor]
"""Indices (k,), int64, none of them twice, and values (k,)."""

MOST = 2**31
"""The number of elements that 31-bit indices can address."""


class SparseCodec(PacketCodec, Protocol):
    """A codec whose packets hold a few elements; the others are zero."""

    def entries(self, packet: Packet) -> Entries:
        """The elements that a packet has, without the zeros."""


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


def where_not_below(value: Tensor, bound: NDArray[Any]) -> Tensor:
    """The indices (k,), increasing, of elements whose magnitude is their `bound` (numel,) or more, and of NaN."""
    return torch.from_numpy(np.flatnonzero(~(np.abs(value.numpy()) < bound)))


def in_full(value: Tensor, indices: Tensor) -> Packet:
    """The elements at `indices` (k,): int32 indices and the values as they are."""
    return indices.to(torch.int32), value.index_select(0, indices)


def as_sent(packet: Packet) -> Entries:
    """The elements of a packet that `in_full` made."""
    indices, values = packet
    return indices.long(), values


def spread(entries: Entries, layout: Layout) -> Tensor:
    """A vector (numel,) with the entries at their indices, and zeros elsewhere."""
    indices, values = entries
    return values.new_zeros(layout.numel).index_copy_(0, indices, values)


def gather_and_add(codec: SparseCodec, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
    """The sum of all workers' packets in rank order, adding only the elements sent: P packets cost their length, not P · numel."""
    encoded = codec.encode(value, layout, state, context)
    packets: list[Packet] = yield AllGatherRequest(encoded.packet)
    total = spread(codec.entries(packets[0]), layout)
    for packet in packets[1:]:
        total.index_add_(0, *codec.entries(packet))
    return Aggregated(total, encoded.sent, encoded.state)
