"""Send plus or minus one, in one bit an element."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from polyrhythm.codec.kernels.kernels import bits_above, choose
from polyrhythm.core.protocols.codec import Encoded, StatelessCodec
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.traits import DIFFERENCES, CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError

_BYTES_A_WORD = 4


@dataclass(frozen=True, slots=True)
@checked
class UnitSigns(StatelessCodec):
    """1 for every element above `threshold`, -1 for all others, whatever their magnitude (MXNet's `1bit`; Chen et al., 2015).

    The format is that of MXNet's src/kvstore/gradient_compression-inl.h: a set bit is 1, thirty-two in a word, the first in the
    highest bit of the first byte. Every element moves by one at each step: gradients must be of that size for it to learn. The rest is
    lost: ErrorFeedback(UnitSigns(threshold)) keeps it, and is MXNet's own rule bit for bit. A packet: the words as bytes, and an
    empty tensor of the type of the values.
    """

    traits: ClassVar = CodecTraits(DIFFERENCES, lossy=True)
    width: ClassVar = 2
    """The words, and an empty tensor of the values' type."""

    threshold: float = 0.5

    def __post_init__(self) -> None:
        if not math.isfinite(self.threshold):
            raise CompositionError(f"UnitSigns(threshold={self.threshold}) divides nothing: threshold is a number, such as 0.")

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """NaN is sent as -1, and stays in the residual of an error feedback."""
        bits = bits_above(value, self.threshold)
        words = torch.cat([bits, bits.new_zeros(-bits.numel() % _BYTES_A_WORD)])
        packet = (words, value.new_empty(0))
        return Encoded(packet, self.decode(packet, layout), state)

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        """1 or -1 for each element."""
        words, like = packet
        everything = np.full(min(1, layout.numel), layout.numel, dtype=np.int64)
        return choose(words, everything, like.new_tensor([-1.0, 1.0][: 2 * len(everything)]))
