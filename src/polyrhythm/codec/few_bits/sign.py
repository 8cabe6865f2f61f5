"""Send the sign of each element and nothing of its magnitude."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.codec.kernels.bits import pack, unpack
from polyrhythm.core.protocols.codec import Encoded, StatelessCodec
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.traits import DIFFERENCES, CodecTraits
from polyrhythm.core.tensors import NO_GRADIENT, Layout, State, without_gradient


@dataclass(frozen=True, slots=True)
class Sign(StatelessCodec):
    """1 for every element of zero or more, -1 for every other, in one bit each (signSGD; Bernstein et al., 2018).

    Striped(Sign()) is the majority vote (Bernstein et al., 2019): the owner of a stripe adds the signs of all and sends the
    sign of that sum. A tie, and a gradient of zero, count as plus; a tensor without a gradient has no sign. A packet: the bits, and after
    them one for each tensor, set if it has a gradient, eight a byte; and an empty tensor of the values' type. Its merge takes steps of
    one size, as OuterOptimizer(SignDescent()) does; all magnitudes are lost.
    """

    traits: ClassVar = CodecTraits(DIFFERENCES, lossy=True)
    width: ClassVar = 2
    """The bits, and an empty tensor of the values' type."""

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """One bit for each element, then one for each tensor."""
        absent = without_gradient([view.reshape(-1) for view in layout.views(value)])
        bits = torch.cat([value >= 0, torch.tensor(absent, dtype=torch.bool).logical_not()]).to(torch.uint8)
        packet = (pack(bits, 1), value.new_empty(0))
        return Encoded(packet, self.decode(packet, layout), state)

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        """1 or -1 for each element; NO_GRADIENT for tensors without a gradient."""
        packed, like = packet
        bits = unpack(packed, 1, layout.numel + len(layout.names))
        signs = bits[: layout.numel].to(like.dtype) * 2 - 1
        for view, present in zip(layout.views(signs), bits[layout.numel :].tolist(), strict=True):
            if not present:
                view.fill_(NO_GRADIENT)
        return signs
