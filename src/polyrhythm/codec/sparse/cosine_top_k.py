"""Send only the largest cosine coefficients of small blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.core.protocols.codec import Encoded, StatelessCodec
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.traits import DIFFERENCES, CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError

_MOST = 181
"""The largest chunk whose square an int16 can count."""


@dataclass(frozen=True, slots=True)
@checked
class CosineTopK(StatelessCodec):
    """The `kept` largest coefficients of each block's cosine transform, as an int16 place and a value each (DeMo; Peng et al., 2024).

    A tensor (out, in, …) counts as a matrix (out, rest), a vector as one row. It is cut into blocks whose sides are the largest divisors of
    its own that are not above `chunk`, and each block is transformed along both sides (DCT-II, orthonormal). What is not sent is lost: wrap
    it, DecayingFeedback(CosineTopK(32)). The sum is that of all workers' coefficients; `SenderMean` divides each by the number of workers
    that sent it.
    """

    traits: ClassVar = CodecTraits(DIFFERENCES, lossy=True)
    width: ClassVar = 2
    """Two tensors: the places, and the values."""

    kept: int = 32
    chunk: int = 64

    def __post_init__(self) -> None:
        if self.kept < 1 or not 1 <= self.chunk <= _MOST:
            raise CompositionError(f"{self} sends nothing or cannot name it: keep 1 or more of a chunk of 1 to {_MOST}.")

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """Block after block, with places in increasing order."""
        places, values = [torch.empty(0, dtype=torch.int16)], [value.new_empty(0)]
        for tensor, blocks in zip(layout.views(value), self._blocks(layout), strict=True):
            if tensor.numel():
                coefficients = blocks.transform(tensor)
                chosen = coefficients.abs().topk(min(self.kept, blocks.numel), dim=1, sorted=False).indices.sort(dim=1).values
                places.append(chosen.to(torch.int16).view(-1))
                values.append(coefficients.gather(1, chosen).view(-1))
        packet = (torch.cat(places), torch.cat(values))
        return Encoded(packet, self.decode(packet, layout), state)

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        return self.decode_mean([packet], layout)

    def decode_mean(self, packets: Sequence[Packet], layout: Layout) -> Tensor:
        """The mean of each coefficient over the packets that have it, transformed back; zero where none has it."""
        result, at = packets[0][1].new_zeros(layout.numel), 0
        for tensor, blocks in zip(layout.views(result), self._blocks(layout), strict=True):
            if tensor.numel():
                count, kept = tensor.numel() // blocks.numel, min(self.kept, blocks.numel)
                end = at + count * kept
                sent = [(places[at:end].view(count, kept).long(), values[at:end].view(count, kept)) for places, values in packets]
                tensor.copy_(blocks.restore(_mean(sent, blocks.numel)).view(tensor.shape))
                at = end
        return result

    def _blocks(self, layout: Layout) -> Iterator[_Blocks]:
        for shape in layout.shapes:
            rows, columns = (shape[0], math.prod(shape[1:])) if len(shape) > 1 else (1, math.prod(shape))
            yield _Blocks(rows, columns, _divisor(rows, self.chunk), _divisor(columns, self.chunk))


@dataclass(frozen=True, slots=True)
class _Blocks:
    """A matrix (rows, columns) cut into blocks (height, width)."""

    rows: int
    columns: int
    height: int
    width: int

    @property
    def numel(self) -> int:
        return self.height * self.width

    def transform(self, tensor: Tensor) -> Tensor:
        """The coefficients (blocks, height · width)."""
        cut = tensor.reshape(self.rows // self.height, self.height, self.columns // self.width, self.width).transpose(1, 2).clone()
        return (_cosines(self.height, tensor.dtype) @ cut @ _cosines(self.width, tensor.dtype).T).reshape(-1, self.numel)

    def restore(self, coefficients: Tensor) -> Tensor:
        """The matrix (rows, columns)."""
        cut = coefficients.view(self.rows // self.height, self.columns // self.width, self.height, self.width)
        whole = _cosines(self.height, cut.dtype).T @ cut @ _cosines(self.width, cut.dtype)
        restored: Tensor = whole.transpose(1, 2).reshape(self.rows, self.columns)
        return restored


def _mean(sent: Sequence[tuple[Tensor, Tensor]], numel: int) -> Tensor:
    """The mean (blocks, numel) of the values that were sent for each place, added up in the order of their senders."""
    first, values = sent[0]
    total = values.new_zeros(len(first), numel).scatter_(1, first, values)
    if len(sent) == 1:
        return total
    senders = torch.zeros_like(total).scatter_(1, first, 1.0)
    for places, values in sent[1:]:
        total.scatter_add_(1, places, values)
        senders.scatter_add_(1, places, torch.ones_like(values))
    return total / senders.clamp_(min=1.0)


@lru_cache(maxsize=64)
def _cosines(size: int, dtype: torch.dtype) -> Tensor:
    """The orthonormal matrix (size, size) of the DCT-II, a row for each frequency."""
    places = torch.arange(size, dtype=torch.float64)
    cosines = torch.cos(math.pi / size * (places + 0.5) * places[:, None]) * (2 / size) ** 0.5
    cosines[0] /= 2**0.5
    typed: Tensor = cosines.to(dtype)
    return typed


@lru_cache(maxsize=4096)
def _divisor(number: int, most: int) -> int:
    """The largest divisor of `number` that is not above `most`; 1 of zero."""
    return next(k for k in range(min(number, most), 0, -1) if number % k == 0) if number else 1


EXAMPLES = (CosineTopK(4096),)
