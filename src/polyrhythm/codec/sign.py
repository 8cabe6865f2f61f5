"""Send the sign of each element and nothing of its size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.codec.bits import pack, unpack
from polyrhythm.pieces.codec import Aggregation, Encoded, gather_and_sum
from polyrhythm.pieces.context import ExchangeContext
from polyrhythm.pieces.requests import Packet
from polyrhythm.pieces.traits import DIFFERENCES, EVERY_PATTERN, CodecTraits
from polyrhythm.tensors import NO_GRADIENT, Layout, State, without_gradient


@dataclass(frozen=True, slots=True)
class Sign:
    """1 for every element of zero or more, -1 for every other, in one bit each (signSGD; Bernstein et al., 2018).

    Striped(Sign()) is the majority vote (Bernstein et al., 2019): the owner of a stripe adds the signs of all and sends the
    sign of that sum. A tie, and a gradient of zero, count as plus; a tensor without a gradient has no sign. A packet: the bits, eight
    a byte, and the numbers of the tensors without a gradient, in the values' type. Its merge takes steps of one size, as
    OuterOptimizer(SignDescent()) does; what is lost is the size of everything.
    """

    traits: ClassVar = CodecTraits(DIFFERENCES, EVERY_PATTERN, lossy=True)

    @property
    def width(self) -> int:
        """The bits, and the numbers."""
        return 2

    def initial(self, layout: Layout) -> State:
        """Nothing to remember."""
        return {}

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """One bit an element."""
        absent = without_gradient([view.reshape(-1) for view in layout.views(value)])
        packet = (pack((value >= 0).to(torch.uint8), 1), value.new_tensor([k for k, each in enumerate(absent) if each]))
        return Encoded(packet, self.decode(packet, layout), state)

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        """Ones and minus ones, and NO_GRADIENT."""
        packed, absent = packet
        signs = unpack(packed, 1, layout.numel).to(absent.dtype) * 2 - 1
        views = layout.views(signs)
        for k in absent.tolist():
            views[int(k)].fill_(NO_GRADIENT)
        return signs

    def aggregate(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
        """The signs of all workers, summed."""
        return gather_and_sum(self, value, layout, state, context)

    def residual(self, state: State, layout: Layout) -> Tensor:
        """Nothing is kept."""
        return torch.zeros(layout.numel)
