"""Operations on tensors in pieces, for an axis whose operations are of whole ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

Pieces = Sequence[Tensor]
"""Contiguous tensors of one type."""


class FlatOperations(Protocol):
    """Operations of an axis."""

    def all_gather(self, value: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
        """As of an `Axis`."""

    def reduce_scatter(self, value: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
        """As of an `Axis`."""


def gather_into(axis: FlatOperations, own: Pieces, places: Sequence[Pieces]) -> None:
    """`Axis.gather_into` by an all-gather."""
    sizes = [length_of(pieces) for pieces in places]
    whole = axis.all_gather(joined(own, places), 0, sizes)
    for pieces, found in zip(places, torch.split(whole, sizes), strict=True):
        fill(pieces, found)


def reduce_scatter_into(axis: FlatOperations, parts: Sequence[Pieces], into: Pieces, divisor: float) -> None:
    """`Axis.reduce_scatter_into` by a reduce-scatter."""
    every = [piece for pieces in parts for piece in pieces]
    total = axis.reduce_scatter(joined(every, parts), 0, [length_of(pieces) for pieces in parts])
    fill(into, total / divisor if divisor != 1 else total)


def first_of(parts: Sequence[Pieces]) -> Tensor:
    """One of them: all have its type."""
    return next(piece for pieces in parts for piece in pieces)


def length_of(pieces: Pieces) -> int:
    """The elements of all together."""
    return sum(map(Tensor.numel, pieces))


def joined(pieces: Pieces, like: Sequence[Pieces]) -> Tensor:
    """All pieces as one vector (numel,), of the type of `like` if there are none."""
    if len(pieces) == 1:
        return pieces[0].detach().view(-1)
    return torch.cat([first_of(like).new_empty(0), *(piece.detach().view(-1) for piece in pieces)])


def fill(pieces: Pieces, found: Tensor) -> None:
    """Write `found` (numel,) into them, one after another."""
    for piece, part in zip(pieces, torch.split(found, [piece.numel() for piece in pieces]), strict=True):
        piece.detach().view(-1).copy_(part)
