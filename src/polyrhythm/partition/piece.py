"""The part of a whole tensor that one rank holds: some intervals of each dimension.

Placements have pieces of parameters; checkpoints, random numbers and the result are by them, so by the elements' places in the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import torch
from torch import Tensor

from polyrhythm.partition.axis import starts

Span = tuple[int, int]
"""The first index of an interval, and the one after its last."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Of a tensor of the shape `whole`, the elements whose index is in one of the `spans` of each dimension, end to end in their order.

    Examples:
        >>> Piece.all_of((6, 4)).part(0, (2, 2, 2), 1)
        Piece(whole=(6, 4), spans=(((2, 4),), ((0, 4),)))
    """

    whole: tuple[int, ...]
    spans: tuple[tuple[Span, ...], ...]

    @staticmethod
    def all_of(shape: Sequence[int]) -> Piece:
        """The whole tensor of that shape."""
        return Piece(tuple(shape), tuple(((0, length),) for length in shape))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the piece."""
        return tuple(sum(end - start for start, end in spans) for spans in self.spans)

    @property
    def numel(self) -> int:
        """The elements of the piece."""
        return prod(self.shape)

    def on(self, dim: int, *spans: Span) -> Piece:
        """The piece with these spans of the whole in dimension `dim`; empty ones are left out."""
        kept = tuple(span for span in spans if span[1] > span[0])
        return Piece(self.whole, (*self.spans[:dim], kept, *self.spans[dim % len(self.spans) + 1 :]))

    def part(self, dim: int, sizes: Sequence[int], index: int, groups: int = 1) -> Piece:
        """The `index`-th part of dimension `dim`, which is divided by `sizes`; of each of `groups` equal stretches the same part.

        Groups are for parameters that have several in one, such as query, key and value, whose `sizes` are those of one.
        """
        start = starts(sizes)[index]
        length = self.whole[dim] // groups
        return self.on(dim, *((k * length + start, k * length + start + sizes[index]) for k in range(groups)))

    def within(self, dim: int, sizes: Sequence[int], index: int) -> Piece:
        """The `index`-th part of this piece's dimension `dim`, which is divided once more by `sizes`.

        Examples:
            >>> Piece.all_of((8,)).on(0, (0, 2), (4, 6)).within(0, (3, 1), 0).spans
            (((0, 2), (4, 5)),)
        """
        first, last = starts(sizes)[index], starts(sizes)[index] + sizes[index]
        before = starts([end - start for start, end in self.spans[dim]])
        return self.on(dim, *((max(a, a + first - at), min(b, a + last - at)) for at, (a, b) in zip(before, self.spans[dim], strict=True)))

    def rows(self, start: int, end: int) -> Piece:
        """The rows of the piece from `start` to `end`, counted in the piece; one without a dimension has one row."""
        if not self.spans:
            return Piece((1,), (((0, 1),),)).rows(start, end)
        kept, at = list[Span](), 0
        for first, last in self.spans[0]:
            low, high = max(start - at, 0), min(end - at, last - first)
            kept.extend([(first + low, first + high)] if high > low else [])
            at += last - first
        return self.on(0, *kept)

    def take(self, whole: Tensor) -> Tensor:
        """The piece of `whole`, as a tensor of its own."""
        found = whole
        for dim, spans in enumerate(self.spans):
            if spans == ((0, self.whole[dim]),):
                continue
            parts = [found.narrow(dim, start, end - start) for start, end in spans] or [found.narrow(dim, 0, 0)]
            found = parts[0] if len(parts) == 1 else torch.cat(parts, dim)
        return found.clone(memory_format=torch.contiguous_format)

    def put(self, part: Tensor, whole: Tensor) -> None:
        """Write the piece into its places in `whole`."""
        own = [
            [(at, at + end - start) for at, (start, end) in zip(starts([b - a for a, b in spans]), spans, strict=True)]
            for spans in self.spans
        ]
        for theirs, here in zip(product(*self.spans), product(*own), strict=True):
            whole[tuple(slice(*span) for span in theirs)] = part[tuple(slice(*span) for span in here)]

    def indices(self) -> list[Tensor]:
        """The indices in each dimension of the whole."""
        return [torch.cat([torch.arange(*span) for span in spans] or [torch.arange(0)]) for spans in self.spans]

    def runs(self) -> list[Span]:
        """The places of the elements in the flat whole tensor, as stretches, in the order of the piece."""
        found: list[Span] = [(0, 1)]
        for dim, spans in enumerate(self.spans):
            length = self.whole[dim]
            if spans == ((0, length),):
                found = [(start * length, end * length) for start, end in found]
            else:
                found = [(row * length + a, row * length + b) for start, end in found for row in range(start, end) for a, b in spans]
        return found
