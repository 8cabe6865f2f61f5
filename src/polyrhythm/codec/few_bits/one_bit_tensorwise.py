"""Send only the sign of each element, and the mean of each sign's elements in each tensor."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from torch import Tensor

from polyrhythm.codec.few_bits.one_bit import OneBit
from polyrhythm.core.protocols.codec import Encoded, StatelessCodec
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.traits import DIFFERENCES, CodecTraits
from polyrhythm.core.tensors import Layout, State


@dataclass(frozen=True, slots=True)
class OneBitTensorwise(StatelessCodec):
    """One bit an element, and two means for each tensor instead of each of its columns (which Seide et al., 2014, section 3, improve on).

    Where the columns of a layer differ in size, the small ones vanish in the means of the large ones. Wrap it:
    ErrorFeedback(OneBitTensorwise()).
    """

    traits: ClassVar = CodecTraits(DIFFERENCES, lossy=True)

    @property
    def width(self) -> int:
        """Two tensors: the bits, and the means."""
        return OneBit().width

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """OneBit's packet, with each tensor as one column."""
        return OneBit().encode(value, _flat(layout), state, context)

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        """OneBit's values, with each tensor as one column."""
        return OneBit().decode(packet, _flat(layout))


def _flat(layout: Layout) -> Layout:
    return Layout(layout.names, tuple((prod(shape),) for shape in layout.shapes))
