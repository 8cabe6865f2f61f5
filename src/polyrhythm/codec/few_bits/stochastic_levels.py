"""Stochastic quantization: send a few levels of each element, rounded at random so that their mean is the element."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from polyrhythm.codec.kernels.bits import pack, unpack
from polyrhythm.core.protocols.codec import Encoded, StatelessCodec
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.traits import DIFFERENCES, CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError

_MOST = 127


@dataclass(frozen=True, slots=True)
@checked
class StochasticLevels(StatelessCodec):
    """Each element as ‖v‖₂ · sign · l / s, with l of s = `levels` drawn so that nothing is lost on average (QSGD; Alistarh et al., 2017).

    v are `bucket` consecutive elements of the whole vector (section 4; 512 in the paper's runs). With a = |v_i| / ‖v‖₂ · s, l is ⌊a⌋, or
    ⌈a⌉ with a probability of a - ⌊a⌋ (section 3.1). A packet: the sign and level of each element in 1 + ⌈log₂ (s + 1)⌉ bits without gaps,
    and the norms in the type of the values. The paper's Elias codes, which are shorter where most levels are zero, are left out.
    """

    traits: ClassVar = CodecTraits(DIFFERENCES, lossy=True, unbiased=True)
    width: ClassVar = 2
    """Two tensors: the packed words, and the norms."""

    levels: int = 7
    bucket: int = 512

    def __post_init__(self) -> None:
        if not 1 <= self.levels <= _MOST or self.bucket < 1:
            raise CompositionError(
                f"StochasticLevels(levels={self.levels}, bucket={self.bucket}) cannot be packed: give 1 to {_MOST} levels, of which 7 take "
                "4 bits an element, and buckets of 1 element or more."
            )

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """Signs and levels of all elements, each level rounded by a random number from the context."""
        buckets = self._cut(value)
        norms = torch.linalg.vector_norm(buckets, dim=1)
        magnitudes = (buckets.abs() / norms.clamp(min=torch.finfo(value.dtype).tiny)[:, None]).view(-1)[: len(value)]
        drawn = torch.from_numpy(context.draw.random(len(value), dtype=np.float32))
        level = (magnitudes * self.levels + drawn).floor().clamp(max=self.levels).to(torch.uint8)
        words = level | ((value < 0).to(torch.uint8) << self.levels.bit_length())
        packet = (pack(words, self.levels.bit_length() + 1), norms)
        return Encoded(packet, self.decode(packet, layout), state)

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        """Norm times sign times level for each element."""
        packed, norms = packet
        bits = self.levels.bit_length()
        magnitudes = np.arange(1 << bits) / self.levels
        parts = torch.from_numpy(np.concatenate([magnitudes, -magnitudes])).to(norms.dtype).numpy()
        values = torch.from_numpy(parts.take(unpack(packed, bits + 1, layout.numel).numpy()))
        return self._cut(values).mul(norms[:, None]).view(-1)[: layout.numel].contiguous()

    def _cut(self, value: Tensor) -> Tensor:
        """Buckets as rows, the last one padded with zeros."""
        rows = math.ceil(len(value) / self.bucket)
        return F.pad(value, (0, rows * self.bucket - len(value))).view(rows, self.bucket)


EXAMPLES = (StochasticLevels(7, bucket=16), StochasticLevels(1, bucket=512))
