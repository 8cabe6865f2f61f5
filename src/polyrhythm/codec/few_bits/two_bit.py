"""Send plus or minus one quantum, or zero, in two bits an element."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from polyrhythm.codec.kernels.kernels import pack_signs, unpack_signs
from polyrhythm.core.protocols.codec import Encoded, StatelessCodec
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.traits import DIFFERENCES, CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class TwoBit(StatelessCodec):
    """`threshold` for every element that is as large or larger, -`threshold` for one as small or smaller, else zero (MXNet's `2bit`).

    Chen et al., 2015; the format is that of MXNet's src/kvstore/gradient_compression-inl.h: codes 11, 10 and 00, sixteen in a word of 32
    bits, the first in the highest bits of the first byte. `threshold` is in units of the values: MXNet's 0.5 is meant for gradients that
    are summed over a batch, and is far above those of a mean loss. An exchange sends at most one quantum of an element, and the rest is
    lost: ErrorFeedback(TwoBit(threshold)) keeps it, and is MXNet's own rule bit for bit. A packet: the words as bytes, and an empty tensor
    of the type of the values.
    """

    traits: ClassVar = CodecTraits(DIFFERENCES, lossy=True)
    width: ClassVar = 2
    """The words, and an empty tensor of the values' type."""

    threshold: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.threshold < math.inf:
            raise CompositionError(
                f"TwoBit(threshold={self.threshold}) has no quantum to send: threshold is the magnitude of what is sent, a number above 0."
            )

    def quantum(self, state: State) -> float:
        return self.threshold

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """NaN is sent as zero, and stays in the residual of an error feedback."""
        packet = (pack_signs(value, self.threshold), value.new_empty(0))
        return Encoded(packet, self.decode(packet, layout), state)

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        """Plus or minus one quantum, or zero, for each element."""
        words, like = packet
        return unpack_signs(words, like.new_tensor([self.threshold]), layout.numel)


EXAMPLES = (TwoBit(0.5),)
