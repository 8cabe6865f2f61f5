"""Encodings of the parts of a sum on each hop of a ring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from polyrhythm.core.kernel.effects import Rounding
from polyrhythm.core.protocols.requests import Packet


class Hop(Protocol):
    """Frozen settings, without a state: what a hop loses is lost."""

    @property
    def rounding(self) -> Rounding:
        """BY_ELEMENT if an element is rounded by itself, BY_PART if the rest of its part matters."""

    def encode(self, part: Tensor) -> Packet:
        """A part (numel,) as it is sent; its size depends on that of the part alone."""

    def decode(self, packet: Packet) -> Tensor:
        """The part (numel,), in the type that it had; the same bits wherever the packet comes."""

    def nbytes(self, nbytes: int) -> float:
        """The bytes that a float32 part of `nbytes` is sent as."""


@dataclass(frozen=True, slots=True)
class Truncated:
    """The upper 16 bits of a float32, the others cut off (Pipe-SGD; Li et al., 2018): its sign, exponent and 7 bits of fraction."""

    rounding: ClassVar = Rounding.BY_ELEMENT

    def encode(self, part: Tensor) -> Packet:
        """The 16 bits, and an empty tensor of the type."""
        words = part.to(torch.float32).view(torch.int32) >> 16
        return words.to(torch.int16), part.new_empty(0)

    def decode(self, packet: Packet) -> Tensor:
        """The bits with zeros behind them."""
        words, like = packet
        return (words.to(torch.int32) << 16).view(torch.float32).to(like.dtype)

    def nbytes(self, nbytes: int) -> float:
        return nbytes / 2


@dataclass(frozen=True, slots=True)
class EightBits:
    """q = round(127 g / max |g|), and max |g| of the part (scalar quantization; Pipe-SGD, Li et al., 2018)."""

    rounding: ClassVar = Rounding.BY_PART

    def encode(self, part: Tensor) -> Packet:
        """Signed bytes, and the largest magnitude."""
        largest = part.abs().max().reshape(1) if part.numel() else part.new_zeros(1)
        scale = torch.where(largest > 0, 127 / largest, 0.0)
        return (part * scale).round().to(torch.int8), largest

    def decode(self, packet: Packet) -> Tensor:
        """Bytes times max |g| / 127."""
        words, largest = packet
        return words.to(largest.dtype) * (largest / 127)

    def nbytes(self, nbytes: int) -> float:
        """A quarter, and the magnitude."""
        return nbytes / 4 + 4
