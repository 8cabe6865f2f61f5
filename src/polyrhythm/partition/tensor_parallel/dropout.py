"""Dropout by place: an element is dropped or kept by its place in the whole activation, whichever rank has it.

So the mask of a divided model is that of one device: ranks that have the same elements drop the same, and others do not repeat each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod

import torch
from torch import Tensor, nn

from polyrhythm.errors import CompositionError
from polyrhythm.partition.axis import Axis
from polyrhythm.partition.piece import Piece
from polyrhythm.partition.place import Place
from polyrhythm.partition.random_numbers import Stream

_IN_FLIGHT = 4096
"""Masks whose numbers are known for a pass that is done again."""


@dataclass(frozen=True, slots=True)
class BatchRows:
    """Some samples of the batch of that `number`, which has `total`: those from `start` to before `end`."""

    number: int
    start: int
    end: int
    total: int


class PlacedDropout(nn.Module):
    """`nn.Dropout` whose mask is drawn from the stream `name` by the places that `place_of` gives for an activation.

    `calls` is the number of masks drawn. A forward pass that is done again for its gradients has the state of torch's generator of the
    first time, and so the same mask again. A pipeline, which passes a batch in parts, says before each pass which `rows` they are: the
    mask of a batch is then the same in whatever parts and order it comes.
    """

    def __init__(self, p: float, name: str, seed: int, place_of: Callable[[Tensor], Piece]) -> None:
        super().__init__()
        self.p, self.calls = p, 0
        self.name, self._seed, self._place_of = name, seed, place_of
        self._numbers: dict[float, int] = {}
        self._rows: BatchRows | None = None
        self._again = 0

    def passes(self, rows: BatchRows) -> None:
        """The next forward pass is of these samples."""
        self._rows, self._again = rows, 0

    def forward(self, value: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return value
        piece, stream = self._whole(value) if self._rows is None else self._part(value, self._rows)
        drawn = torch.empty(piece.shape, device="meta") if value.is_meta else stream.uniform(piece).to(value.device)
        return value * (drawn >= self.p).to(value.dtype) / max(1 - self.p, torch.finfo(value.dtype).tiny)

    def _whole(self, value: Tensor) -> tuple[Piece, Stream]:
        return self._place_of(value), Stream(self._seed, self.name, self._number())

    def _part(self, value: Tensor, rows: BatchRows) -> tuple[Piece, Stream]:
        """The places of some samples, which are the first dimension, alone or together with those after it."""
        each, rest = divmod(len(value), rows.end - rows.start)
        if rest:
            raise CompositionError(
                f"{self.name} drops elements by place in an activation {list(value.shape)} of {rows.end - rows.start} samples: have its "
                "first dimension be the samples."
            )
        batch = torch.empty((each * rows.total, *value.shape[1:]), device="meta")
        name = f"{self.name}/{self._again}" if self._again else self.name
        self._again += 1
        return self._place_of(batch).rows(each * rows.start, each * rows.end), Stream(self._seed, name, rows.number)

    def _number(self) -> int:
        """The number of this mask: that of an earlier one where torch's generator has been put back to its state then."""
        ticket = torch.randint(2**62, (), device="cpu").item()
        if ticket not in self._numbers:
            self._numbers[ticket] = self.calls
            self.calls += 1
        if len(self._numbers) > _IN_FLIGHT:
            del self._numbers[next(iter(self._numbers))]
        return self._numbers[ticket]

    def extra_repr(self) -> str:
        return f"p={self.p}"


@dataclass(frozen=True)
class DropByPlace:
    """Drop elements of an `nn.Dropout` by place, where the activation's dimensions are divided over `axes`, by default over none.

    ``DropByPlace({0: ("dp",), -1: ("tp",)})`` is for one whose samples are divided over dp and features over tp, into equal parts or
    those of `sizes` for the dimension: one for each rank, the last axis first.
    """

    axes: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    sizes: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def along(self) -> tuple[str, ...]:
        return ()

    def refusal(self, module: nn.Module, place: Place) -> str:
        if not isinstance(module, nn.Dropout):
            return f"DropByPlace is for nn.Dropout, and this is {type(module).__name__}: name dropouts."
        for dim, sizes in self.sizes.items():
            parts = prod(place.axis(name).size for name in self.axes.get(dim, ()))
            if len(sizes) != parts:
                return f"sizes has {len(sizes)} for dimension {dim}, which is divided into {parts}: give one for each part."
        return ""

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        assert isinstance(module, nn.Dropout)
        parts = {dim: _part([place.axis(axis) for axis in axes]) for dim, axes in self.axes.items()}
        return PlacedDropout(module.p, name, place.seed, lambda value: _piece(value, parts, self.sizes)).train(module.training)


def _part(axes: list[Axis]) -> tuple[int, int]:
    """This rank's place among all along the axes, and their number."""
    index = 0
    for axis in axes:
        index = index * axis.size + axis.index
    return index, prod(axis.size for axis in axes)


def _piece(value: Tensor, parts: Mapping[int, tuple[int, int]], sizes: Mapping[int, tuple[int, ...]]) -> Piece:
    shape = list(value.shape)
    lengths = {dim: sizes.get(dim, (shape[dim],) * number) for dim, (_, number) in parts.items()}
    for dim, (index, _) in parts.items():
        if lengths[dim][index] != shape[dim]:
            raise CompositionError(f"An activation has {shape[dim]} elements in dimension {dim}, where sizes has {lengths[dim][index]}.")
    for dim, each in lengths.items():
        shape[dim] = sum(each)
    piece = Piece.all_of(shape)
    for dim, (index, _) in parts.items():
        piece = piece.part(dim % len(shape), lengths[dim], index)
    return piece
