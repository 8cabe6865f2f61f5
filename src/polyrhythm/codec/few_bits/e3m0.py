"""Four bits an element: a sign and an exponent."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.core.protocols.codec import Encoded, StatelessCodec
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.traits import DIFFERENCES, CodecTraits
from polyrhythm.core.tensors import Layout, State

_EXPONENTS = 8
_BETWEEN = torch.tensor([2.0**-7, *(1.5 * 2.0**k for k in range(-6, 0))], dtype=torch.float64)
"""Halfway between 0, 2⁻⁶, 2⁻⁵, …, 1."""
_LEVELS = torch.tensor([0.0, *(2.0**k for k in range(-6, 1))], dtype=torch.float64)


@dataclass(frozen=True, slots=True)
class E3M0(StatelessCodec):
    """The nearest of 0, 2⁻⁶, 2⁻⁵, …, 1 times the largest element of its tensor, with a sign (Douillard et al., 2025, section 2.4).

    A sign, three bits of exponent and no mantissa. A packet: two elements a byte, the first in the higher half, each its sign and then its
    exponent; and the largest magnitude of each tensor, in the type of the values. Rounding errors are lost: the paper sends outer
    gradients so, without error feedback, and sums them in float32; ErrorFeedback(E3M0()) sends them next time. An element
    below 1/128 of the largest is not sent.
    """

    traits: ClassVar = CodecTraits(DIFFERENCES, lossy=True)
    width: ClassVar = 2
    """Two tensors: the codes, and the scales."""

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """NaN in a tensor makes its scale NaN, so that receivers see it."""
        views = [view for view in layout.views(value) if view.numel()]
        scales = torch.stack([view.abs().max() for view in views]) if views else value.new_empty(0)
        relative = value.abs() / _spread(scales, layout).clamp_min(torch.finfo(value.dtype).tiny)
        codes = torch.bucketize(relative, _BETWEEN.to(value.dtype), right=True) + _EXPONENTS * torch.signbit(value)
        codes = torch.cat([codes, codes.new_zeros(layout.numel % 2)]).to(torch.uint8).view(-1, 2)
        packet = (codes[:, 0] * 16 + codes[:, 1], scales)
        return Encoded(packet, self.decode(packet, layout), state)

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        """The level of each element times the scale of its tensor."""
        packed, scales = packet
        codes = torch.stack([packed // 16, packed % 16], dim=1).view(-1)[: layout.numel].long()
        signed = torch.cat([_LEVELS, -_LEVELS]).to(scales.dtype)
        return signed[codes] * _spread(scales, layout)


def _spread(scales: Tensor, layout: Layout) -> Tensor:
    """The scale of each element's tensor (numel,)."""
    counts = [count for shape in layout.shapes if (count := prod(shape))]
    return torch.repeat_interleave(scales, torch.tensor(counts, dtype=torch.int64))
