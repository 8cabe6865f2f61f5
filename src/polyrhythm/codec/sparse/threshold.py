"""Send plus or minus one quantum for each element that exceeds a threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.codec.kernels.kernels import above
from polyrhythm.codec.sparse.sparse import Entries, SparseCodec, check_size, spread
from polyrhythm.core.protocols.codec import Encoded
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.traits import DIFFERENCES, CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError

_WORDS = {torch.float32: torch.int32, torch.float64: torch.int64}


@dataclass(frozen=True, slots=True)
@checked
class Threshold(SparseCodec):
    """±tau for every element of magnitude above `tau`, in one word each: 31 bits of index and a sign (Strom, 2015, section 3).

    The words are int32. Values of float64 take int64 words instead, by which receivers know the type. A packet may be empty.
    An exchange sends at most one quantum of an element, and the rest is lost; ErrorFeedback(Threshold(tau)) keeps the
    excess, value - sent, which is Strom's residual. `tau` is in units of the values: of gradients, or of updates.
    """

    traits: ClassVar = CodecTraits(DIFFERENCES, lossy=True)
    width: ClassVar = 1
    """One tensor of index words."""

    tau: float

    def __post_init__(self) -> None:
        if not 0 < self.tau < math.inf:
            raise CompositionError(
                f"Threshold(tau={self.tau}) has no quantum to send: tau must be positive; Significant(0) sends every value as it is."
            )

    def initial(self, layout: Layout) -> State:
        """No state. Raises CompositionError for more than 2³¹ elements."""
        check_size("Threshold", layout)
        return {}

    def quantum(self, state: State) -> float:
        return self.tau

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """Indices in increasing order; a set sign bit is minus."""
        indices = above(value, self.tau)
        word = _WORDS[value.dtype]
        minus = (value.index_select(0, indices) < 0).to(word) * torch.iinfo(word).min
        packed = indices.to(word) | minus
        return Encoded((packed,), self.decode((packed,), layout), state)

    def entries(self, packet: Packet) -> Entries:
        """The elements of a packet, each plus or minus tau."""
        packed = packet[0]
        word = torch.iinfo(packed.dtype)
        signs = ((packed >> (word.bits - 1)) * 2 + 1).to(torch.float32 if word.bits == 32 else torch.float64)
        return (packed & word.max).long(), signs * self.tau

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        return spread(self.entries(packet), layout)


EXAMPLES = (Threshold(0.5),)
