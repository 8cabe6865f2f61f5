"""Send the elements that are large enough, in full."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.codec.kernels.kernels import not_below
from polyrhythm.codec.sparse.sparse import Entries, as_sent, check_size, gather_and_add, in_full, spread
from polyrhythm.core.protocols.codec import Aggregation, Encoded
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.traits import DIFFERENCES, EVERY_PATTERN, CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class Significant:
    """Every element of magnitude `threshold` or more, as an int32 index and its whole value (Addair, 2017).

    Significant(0) sends everything. Threshold sends a quantum instead of the value, and its zero would send nothing.
    Elements that are not sent are lost: wrap it, ErrorFeedback(Significant(0.001)).
    """

    traits: ClassVar = CodecTraits(DIFFERENCES, EVERY_PATTERN, lossy=True)

    threshold: float

    def __post_init__(self) -> None:
        if not 0 <= self.threshold < math.inf:
            raise CompositionError(
                f"Significant(threshold={self.threshold}) cannot tell large from small: threshold is a magnitude, a number of at least 0."
            )

    @property
    def width(self) -> int:
        """Two tensors: the indices, and the values."""
        return 2

    def initial(self, layout: Layout) -> State:
        """No state. Raises CompositionError for more than 2³¹ elements."""
        check_size("Significant", layout)
        return {}

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """Indices in increasing order. NaN is sent too, so that receivers see it."""
        packet = in_full(value, not_below(value, self.threshold))
        return Encoded(packet, self.decode(packet, layout), state)

    def entries(self, packet: Packet) -> Entries:
        return as_sent(packet)

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        """The elements of the packet, and zeros elsewhere."""
        return spread(as_sent(packet), layout)

    def aggregate(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
        return gather_and_add(self, value, layout, state, context)

    def residual(self, state: State, layout: Layout) -> Tensor:
        return torch.zeros(layout.numel)
