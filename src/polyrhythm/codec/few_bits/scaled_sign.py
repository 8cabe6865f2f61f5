"""Send the sign of each element, and one size for each tensor."""

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
from polyrhythm.core.tensors import Layout, State


@dataclass(frozen=True, slots=True)
class ScaledSign(StatelessCodec):
    """The sign of every element times its tensor's ‖v‖₂ / √n, so that what is sent has the norm of v (1-bit Adam; Tang et al., 2021).

    A packet: one bit an element, eight a byte, and the sizes in the type of the values. The rest of the value is lost, and training
    diverges: wrap it, Striped(ErrorFeedback(ScaledSign())).
    """

    traits: ClassVar = CodecTraits(DIFFERENCES, lossy=True)
    width: ClassVar = 2
    """Two tensors: the bits, and the sizes."""

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """Bits are 1 for elements of zero or more."""
        sizes = [torch.linalg.vector_norm(view) / max(1, view.numel()) ** 0.5 for view in layout.views(value)]
        packet = (pack((value >= 0).to(torch.uint8), 1), torch.stack(sizes) if sizes else value.new_empty(0))
        return Encoded(packet, self.decode(packet, layout), state)

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        """The sign of each element times its tensor's size."""
        packed, sizes = packet
        signs = unpack(packed, 1, layout.numel).to(sizes.dtype).mul_(2).sub_(1)
        for view, size in zip(layout.views(signs), sizes, strict=True):
            view.mul_(size)
        return signs


EXAMPLES = ()  # bare it loses what it does not send, and a lossy codec that is biased stands under ErrorFeedback
