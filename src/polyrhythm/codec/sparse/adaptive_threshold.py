"""Send plus or minus one quantum for large elements, and adapt it so that the share of elements sent stays within a range."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.codec.kernels.kernels import pack_signs, unpack_signs
from polyrhythm.codec.sparse.sparse import Entries, SparseCodec, check_size, spread
from polyrhythm.codec.sparse.threshold import Threshold
from polyrhythm.core.protocols.codec import Encoded
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.traits import DIFFERENCES, CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError

_DENSE = 1 / 16
"""Above this share of elements, two bits for every element are shorter than a word for each that is sent."""
_STEP = 0.5 ** (1 / 20)


@dataclass(frozen=True, slots=True)
@checked
class AdaptiveThreshold(SparseCodec):
    """Threshold coding in which tau is multiplied by 0.5^(1/20) after each step that sent a smaller share than `fewest`, and divided by it
    after one that sent more than `most` (Deeplearning4j's gradient sharing, 2018).

    `tau` is the first. Where more than one element in 16 is to be sent, all are sent in two bits each, and that counts as a share of 1/16.
    A packet: the words of Threshold, or bytes as of TwoBit, and the tau with which they were made. State: "tau", a float64, within
    the range of the values' type. Elements that are not sent are lost: wrap it, ClippedFeedback(AdaptiveThreshold()) as
    Deeplearning4j does, or ErrorFeedback.
    """

    traits: ClassVar = CodecTraits(DIFFERENCES, lossy=True)
    width: ClassVar = 2
    """The words, and the tau with which they were made."""

    tau: float = 1e-3
    fewest: float = 1e-4
    most: float = 1e-2

    def __post_init__(self) -> None:
        if not 0 < self.tau < math.inf:
            raise CompositionError(f"AdaptiveThreshold(tau={self.tau}) has no quantum to begin with: tau must be positive.")
        if not 0 <= self.fewest < self.most <= 1:
            raise CompositionError(
                f"AdaptiveThreshold(fewest={self.fewest}, most={self.most}) has no range to keep to: give shares of the elements, "
                "fewest below most."
            )

    def initial(self, layout: Layout) -> State:
        """The first tau. Raises CompositionError for more than 2³¹ elements."""
        check_size("AdaptiveThreshold", layout)
        return {"tau": torch.tensor(self.tau, dtype=torch.float64)}

    def quantum(self, state: State) -> float:
        """The tau with which the next value is encoded."""
        return float(state["tau"])

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """Index words, or two bits for every element where those are shorter."""
        size = value.new_tensor([self.quantum(state)])
        packed = Threshold(size.item()).encode(value, layout, {}, context)
        share = packed.packet[0].numel() / max(1, layout.numel)
        body = packed.packet[0]
        if share > _DENSE:
            body, share = pack_signs(packed.sent, size.item()), _DENSE
        factor = _STEP if share < self.fewest else 1 / _STEP if share > self.most else 1.0
        bounds = torch.finfo(value.dtype)
        return Encoded((body, size), packed.sent, {"tau": (state["tau"] * factor).clamp(bounds.tiny, bounds.max)})

    def entries(self, packet: Packet) -> Entries:
        """The elements of a packet, each plus or minus its tau."""
        body, size = packet
        if body.dtype != torch.uint8:
            return Threshold(size.item()).entries((body,))
        everything = unpack_signs(body, size, 4 * body.numel())
        indices = everything.nonzero().view(-1)
        return indices, everything.index_select(0, indices)

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        """The elements of the packet, and zeros elsewhere."""
        body, size = packet
        return unpack_signs(body, size, layout.numel) if body.dtype == torch.uint8 else spread(self.entries(packet), layout)


EXAMPLES = (AdaptiveThreshold(0.5), AdaptiveThreshold(3.0, fewest=0.01, most=0.2))
