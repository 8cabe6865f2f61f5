"""A sequence that is divided over an axis: which tokens each rank has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import torch
from torch import Tensor

from polyrhythm.partition.axis import Axis, near_equal
from polyrhythm.partition.moves import gather, shard, total
from polyrhythm.partition.piece import Span

Spans = tuple[tuple[Span, ...], ...]
"""For each rank the stretches of the sequence that it has, in its order."""


class TokenOrder(Protocol):
    """A way to deal a sequence out."""

    def spans(self, length: int, parts: int) -> Spans:
        """What each of `parts` ranks has of a sequence of that length."""


@dataclass(frozen=True, slots=True)
class Consecutive:
    """One stretch for each rank, of lengths that are near equal, or in the proportions of `weights`.

    Examples:
        >>> Consecutive().spans(10, 4)
        (((0, 3),), ((3, 6),), ((6, 8),), ((8, 10),))
    """

    weights: tuple[float, ...] | None = None

    def spans(self, length: int, parts: int) -> Spans:
        return tuple((span,) for span in _stretches(near_equal(length, parts, self.weights)))


@dataclass(frozen=True, slots=True)
class HeadTail:
    """Two stretches for each rank, one from the head and one from the tail: with a causal mask all have the same work.

    Examples:
        >>> HeadTail().spans(12, 3)
        (((0, 2), (10, 12)), ((2, 4), (8, 10)), ((4, 6), (6, 8)))
    """

    def spans(self, length: int, parts: int) -> Spans:
        chunks = _stretches(near_equal(length, 2 * parts))
        return tuple((chunks[k], chunks[2 * parts - 1 - k]) for k in range(parts))


def _stretches(sizes: Sequence[int]) -> list[Span]:
    ends = [0]
    for size in sizes:
        ends.append(ends[-1] + size)
    return list(pairwise(ends))


@dataclass(frozen=True, slots=True)
class Tokens:
    """A sequence of `length` tokens, divided over `axis` in that `order`."""

    length: int
    axis: str = "cp"
    order: TokenOrder = Consecutive()

    def spans(self, parts: int) -> Spans:
        """What each rank has."""
        return self.order.spans(self.length, parts)

    def sizes(self, parts: int) -> tuple[int, ...]:
        """How many tokens each rank has."""
        return tuple(sum(end - start for start, end in spans) for spans in self.spans(parts))

    def positions(self, axis: Axis) -> Tensor:
        """The places in the sequence of this rank's tokens."""
        return torch.cat([torch.arange(*span) for span in self.spans(axis.size)[axis.index]])

    def part(self, value: Tensor, axis: Axis, dim: int) -> Tensor:
        """Invariant to varying: this rank's tokens of a whole sequence along `dim`. Raises ValueError for another length."""
        if value.shape[dim] != self.length:
            raise ValueError(
                f"A sequence of {value.shape[dim]} tokens was given, and the cut is for {self.length}: give Tokens its length."
            )
        every = [span for spans in self.spans(axis.size) for span in spans]
        ordered = torch.cat([value.narrow(dim, start, end - start) for start, end in every], dim)
        return shard(ordered, axis, dim, self.sizes(axis.size))

    def join(self, value: Tensor, axis: Axis, dim: int) -> Tensor:
        """Varying to invariant: the whole sequence along `dim`, in its order."""
        every = [span for spans in self.spans(axis.size) for span in spans]
        parts = torch.split(gather(value, axis, dim, self.sizes(axis.size)), [end - start for start, end in every], dim)
        return torch.cat([part for _, part in sorted(zip(every, parts, strict=True), key=lambda each: each[0])], dim)


def mean_over(values: Tensor, axis: Axis, kept: Tensor | None = None) -> Tensor:
    """The mean of the values of all ranks, of those that are `kept` (bool), however many each rank has: equal at all ranks.

    For losses of tokens: a mean of the ranks' means is another number where they have different numbers of tokens.
    """
    here = torch.ones_like(values) if kept is None else kept.to(values.dtype)
    count = axis.all_reduce(here.sum())
    return total((values * here).sum(), axis) / count
