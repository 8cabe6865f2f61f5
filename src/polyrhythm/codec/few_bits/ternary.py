"""Send -1, 0 or 1 for each element, and one scale for each tensor."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from polyrhythm.codec.kernels.bits import pack, unpack
from polyrhythm.core.protocols.codec import Encoded, StatelessCodec
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.traits import DIFFERENCES, CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class Ternary(StatelessCodec):
    """Each element as s · sign · b, with its tensor's largest magnitude s, and b = 1 with probability |g| / s (TernGrad; Wen et al., 2017).

    Before that magnitudes are clipped to `clip` times σ (2.5 in the paper), here the root of the tensor's mean square, so that
    a tensor of one element is not clipped to nothing. Clipping is a bias; with an infinite `clip` the code is unbiased. A packet: 2
    bits an element without gaps, and the scales in the type of the values. Each worker has its own scales: the paper's sharing of scales,
    which makes the sum of all workers a small integer, is left out.
    """

    width: ClassVar = 2
    """Two tensors: the packed words, and the scales."""

    clip: float = 2.5

    def __post_init__(self) -> None:
        if not self.clip > 0:
            raise CompositionError(f"Ternary(clip={self.clip}) clips everything: give a positive number of σ, 2.5 in the paper.")

    @property
    def traits(self) -> CodecTraits:
        """Unbiased unless it clips."""
        return CodecTraits(DIFFERENCES, lossy=True, unbiased=math.isinf(self.clip))

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """A word for each element, by a random number from the context."""
        magnitudes, scales = value.abs(), value.new_zeros(len(layout.names))
        bounds = torch.from_numpy(context.draw.random(len(value), dtype=np.float32)).to(value.dtype)
        for k, (view, bound) in enumerate(zip(layout.views(magnitudes), layout.views(bounds), strict=True)):
            if view.numel():
                if math.isfinite(self.clip):
                    view.clamp_(max=self.clip * view.square().mean().sqrt().item())
                scales[k] = view.max()
                bound.mul_(scales[k])
        kept = (bounds < magnitudes).to(torch.uint8)
        packet = (pack(kept + (kept & (value < 0)), 2), scales)
        return Encoded(packet, self.decode(packet, layout), state)

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        """The scale times 0, 1 or -1; the words are 0, 1 for plus and 2 for minus."""
        packed, scales = packet
        words = unpack(packed, 2, layout.numel)
        values = ((words & 1).to(torch.int8) - (words >> 1).to(torch.int8)).to(scales.dtype)
        for view, scale in zip(layout.views(values), scales, strict=True):
            view.mul_(scale)
        return values


EXAMPLES = (Ternary(), Ternary(float("inf")))
