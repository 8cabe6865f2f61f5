"""Numbers in few bits: tiles are transformed so that no number of them stands out, and rounded at random to levels of a scale.

A Hadamard transform of tiles as in He et al., 2025, "TAH-Quant", whose other parts (bits that depend on the tile's entropy, pivots) are
left out. The rounding is stochastic, so that the mean of what arrives is what was sent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from polyrhythm.partition.piece import Piece
from polyrhythm.partition.pipeline.boundaries.by_tensor import ByTensor, Shape
from polyrhythm.partition.pipeline.boundary import Encoding
from polyrhythm.partition.random_numbers import Stream

TILE = 128
"""Numbers that have one scale, of 4 bytes."""
_BYTE = 8


@dataclass(frozen=True, slots=True)
class Activations:
    """Send activations in `bits` and their gradients in `backward_bits` each, 2 to 8, and 4 bytes for every 128 of them."""

    bits: int = 4
    backward_bits: int = 8

    @property
    def approximate(self) -> bool:
        return True

    @property
    def by_sample(self) -> bool:
        return False

    def refusal(self) -> str:
        return refused_bits(self.bits, self.backward_bits)

    def activations(self, cut: int, seed: int) -> Encoding:
        return ByTensor(FewBits(self.bits), seed, f"activations over cut {cut}")

    def gradients(self, cut: int, seed: int) -> Encoding:
        return ByTensor(FewBits(self.backward_bits), seed, f"gradients over cut {cut}")


def refused_bits(*given: int) -> str:
    """Why these numbers of bits cannot be; "" if they can."""
    bad = [bits for bits in given if not 2 <= bits <= _BYTE]
    return f"{bad[0]} bits are none of 2 to {_BYTE}: give one of these, or send numbers as they are by Exact." if bad else ""


@dataclass(frozen=True, slots=True)
class FewBits:
    """The `TensorCode` of tiles with scales: the scales' bytes, then the levels, packed without gaps."""

    bits: int

    def wire(self, shape: Shape, kind: torch.dtype) -> tuple[Shape, torch.dtype]:
        tiles = -(-math.prod(shape) // TILE)
        return (tiles * (4 + TILE * self.bits // _BYTE),), torch.uint8

    def encode(self, value: Tensor, stream: Stream) -> Tensor:
        flat = torch.nn.functional.pad(value.float().reshape(-1), (0, -value.numel() % TILE)).view(-1, TILE)
        tiles = flat @ hadamard(TILE).to(value.device)
        scales = tiles.abs().amax(1, keepdim=True)
        drawn = stream.uniform(Piece.all_of(tiles.shape)).to(value.device, torch.float32)
        share = torch.where(scales > 0, tiles / scales, 0.0)
        levels = ((share + 1) / 2 * self._steps + drawn).floor().clamp(0, self._steps)
        return torch.cat([scales.view(torch.uint8).reshape(-1), packed(levels.to(torch.uint8).view(-1), self.bits)])

    def decode(self, wire: Tensor, shape: Shape, kind: torch.dtype) -> Tensor:
        numel = math.prod(shape)
        tiles = -(-numel // TILE)
        scales = wire[: 4 * tiles].view(torch.float32).view(-1, 1)
        levels = unpacked(wire[4 * tiles :], self.bits).view(-1, TILE).float()
        found = (levels / self._steps * 2 - 1) * scales @ hadamard(TILE).to(wire.device)
        return found.view(-1)[:numel].view(shape).to(kind)

    @property
    def _steps(self) -> int:
        return (1 << self.bits) - 1


@cache
def hadamard(size: int) -> Tensor:
    """The symmetric orthonormal matrix of signs, for a power of two."""
    found = torch.ones(1, 1, device="cpu")
    while len(found) < size:
        found = torch.cat([torch.cat([found, found], 1), torch.cat([found, -found], 1)])
    return found / math.sqrt(size)


def packed(words: Tensor, width: int) -> Tensor:
    """The lowest `width` bits of words (n,), a multiple of 8, as bytes (n · width / 8,), on any device."""
    bits = (words.unsqueeze(-1) >> torch.arange(width, device=words.device, dtype=torch.uint8)) & 1
    places = torch.arange(_BYTE, device=words.device, dtype=torch.uint8)
    return (bits.view(-1, _BYTE) << places).sum(-1, dtype=torch.uint8)


def unpacked(found: Tensor, width: int) -> Tensor:
    """The words that were `packed`."""
    bits = (found.unsqueeze(-1) >> torch.arange(_BYTE, device=found.device, dtype=torch.uint8)) & 1
    return (bits.view(-1, width) << torch.arange(width, device=found.device, dtype=torch.uint8)).sum(-1, dtype=torch.uint8)
