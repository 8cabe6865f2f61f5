"""Activations that are divided in two ways: samples over some axes, features over another.

The layers of `Summa`, `Tesseract` and `Cube` have their inputs and outputs on such a grid, and so have the modules between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from torch import Tensor

from polyrhythm.errors import CompositionError
from polyrhythm.partition.axis import Axis, near_equal
from polyrhythm.partition.moves import gather, gather_replicated, replicate, shard
from polyrhythm.partition.piece import Piece
from polyrhythm.partition.tensor_parallel.marks import check_mark


class RegionBatch:
    """The number of samples that a divided region was given last, over all axes that divide them."""

    samples = 0


@dataclass(frozen=True, slots=True)
class ActivationGrid:
    """The axes `rows` that divide samples, one after another, and the axis `column` that divides features.

    Features are divided by `unit`s where their number is a multiple, such as by heads. Parameters are divided by features, and then over
    the axes `spread`; they are equal along `copies`. These two are the axes of `rows`. Samples are divided over the axes `data` already.
    """

    rows: tuple[Axis, ...]
    column: Axis
    spread: tuple[Axis, ...]
    copies: tuple[Axis, ...]
    data: tuple[Axis, ...]
    unit: int
    batch: RegionBatch

    def sizes(self, features: int, axis: Axis) -> tuple[int, ...]:
        """The features of each coordinate of the axis; the same for all dimensions of that length, so that they fit together."""
        unit = self.unit if features % self.unit == 0 else 1
        return tuple(unit * n for n in near_equal(features // unit, axis.size))

    def own_samples(self) -> int:
        """The samples of this rank."""
        return divided(Piece.all_of((self.batch.samples,)), 0, self.rows).numel


def nested(length: int, axes: Sequence[Axis]) -> list[tuple[Axis, tuple[int, ...]]]:
    """The sizes along each axis, where `length` is divided over the first, and this rank's part of it over the next."""
    levels = []
    for axis in axes:
        sizes = near_equal(length, axis.size)
        levels.append((axis, sizes))
        length = sizes[axis.index]
    return levels


def divided(piece: Piece, dim: int, axes: Sequence[Axis]) -> Piece:
    """This rank's part of the piece, whose dimension `dim` is divided over one axis after another."""
    for axis, sizes in nested(piece.shape[dim], axes):
        piece = piece.within(dim, sizes, axis.index)
    return piece


def among(piece: Piece, axes: Sequence[Axis]) -> Piece:
    """The place of the piece where each rank along the axes has a whole of its own, and these are put end to end in the first dimension."""
    before = 0
    for axis in axes:
        before = before * axis.size + axis.index
    length = piece.whole[0]
    whole = Piece.all_of((length * prod(axis.size for axis in axes), *piece.whole[1:]))
    first = tuple((start + before * length, end + before * length) for start, end in piece.spans[0])
    return Piece(whole.whole, (first, *piece.spans[1:]))


@dataclass(frozen=True, slots=True)
class Features:
    """The last dimension of an activation: `width` features in `groups`, each of which is divided by itself."""

    width: int
    groups: int = 1

    @property
    def each(self) -> int:
        """The features of one group."""
        return self.width // self.groups

    def piece(self, shape: Sequence[int], dim: int, grid: ActivationGrid) -> Piece:
        """This rank's part of a parameter of that shape whose dimension `dim` they are."""
        return Piece.all_of(shape).part(dim, grid.sizes(self.each, grid.column), grid.column.index, self.groups)

    def place(self, value: Tensor, grid: ActivationGrid) -> Piece:
        """The place of an activation (own samples, …, own features) in the whole one."""
        self.check(value, grid)
        whole = Piece.all_of((grid.batch.samples, *value.shape[1:-1], self.width))
        features = grid.sizes(self.each, grid.column)
        return among(divided(whole, 0, grid.rows).part(value.dim() - 1, features, grid.column.index, self.groups), grid.data)

    def check(self, value: Tensor, grid: ActivationGrid) -> None:
        """Raise CompositionError for an activation that is not this rank's part: of its samples, with these features."""
        check_mark(value, grid)
        found = (value.shape[0], value.shape[-1])
        wanted = (grid.own_samples(), self.groups * grid.sizes(self.each, grid.column)[grid.column.index])
        if found != wanted:
            raise CompositionError(
                f"A layer of a divided region was given an activation of {found} samples and features, where this rank has {wanted}: "
                "register layers in the order in which they are applied, with samples in the first dimension and features in the last."
            )


@dataclass(frozen=True, slots=True)
class SpreadParameter:
    """How a parameter is put together where it is used: its dimension `dim`, which is `length` long then, is divided over grid.spread."""

    length: int
    dim: int
    grid: ActivationGrid

    def whole(self, own: Tensor) -> Tensor:
        """The parameter, of which each rank has a part of the gradient."""
        for axis in self.grid.copies:
            own = replicate(own, axis)
        for axis, sizes in reversed(nested(self.length, self.grid.spread)):
            own = gather_replicated(own, axis, self.dim, sizes)
        return own


def enter(value: Tensor, grid: ActivationGrid) -> Tensor:
    """This rank's part of what all ranks have: of the samples, and of the features of real numbers."""
    for axis, sizes in nested(value.shape[0], grid.rows):
        value = shard(value, axis, 0, sizes)
    if value.dim() > 1 and value.is_floating_point():
        value = shard(value, grid.column, value.dim() - 1, grid.sizes(value.shape[-1], grid.column))
    return value


def leave(value: Tensor, grid: ActivationGrid, features: Features) -> Tensor:
    """The whole activation, at all ranks."""
    features.check(value, grid)
    grouped = value.view(*value.shape[:-1], features.groups, value.shape[-1] // features.groups)
    whole = gather(grouped, grid.column, grouped.dim() - 1, grid.sizes(features.each, grid.column)).flatten(-2)
    for axis, sizes in reversed(nested(grid.batch.samples, grid.rows)):
        whole = gather(whole, axis, 0, sizes)
    return whole
