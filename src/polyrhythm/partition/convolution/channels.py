"""Activations whose channels are divided over two axes of the mesh, one within the other."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from polyrhythm.partition.axis import Axis, near_equal, starts
from polyrhythm.partition.axis_of_one import AxisOfOne
from polyrhythm.partition.moves import gather, shard
from polyrhythm.partition.piece import Span
from polyrhythm.partition.place import Place


@dataclass(frozen=True, slots=True)
class Channels:
    """Channels that are divided into blocks over the axis `outer`, and each block over the axis `inner`; None for no such division."""

    count: int
    outer: str | None
    inner: str | None

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes over which they are divided."""
        return tuple(axis for axis in (self.outer, self.inner) if axis)

    def axis(self, place: Place, name: str | None) -> Axis:
        """An axis of the mesh, or one of one rank."""
        return place.axis(name) if name else AxisOfOne("whole")

    def blocks(self, place: Place) -> tuple[int, ...]:
        """The channels of each block."""
        return near_equal(self.count, self.axis(place, self.outer).size)

    def block(self, place: Place) -> Span:
        """The channels of this rank's block."""
        sizes, index = self.blocks(place), self.axis(place, self.outer).index
        return starts(sizes)[index], starts(sizes)[index] + sizes[index]

    def parts(self, place: Place) -> tuple[int, ...]:
        """The channels of each rank of this block."""
        start, end = self.block(place)
        return near_equal(end - start, self.axis(place, self.inner).size)

    def span(self, place: Place) -> Span:
        """The channels of this rank."""
        sizes, index = self.parts(place), self.axis(place, self.inner).index
        start = self.block(place)[0] + starts(sizes)[index]
        return start, start + sizes[index]

    def part(self, value: Tensor, place: Place) -> Tensor:
        """Invariant to varying: this rank's channels."""
        block = shard(value, self.axis(place, self.outer), 1, self.blocks(place))
        return shard(block, self.axis(place, self.inner), 1, self.parts(place))

    def join(self, value: Tensor, place: Place) -> Tensor:
        """Varying to invariant: all channels."""
        block = gather(value, self.axis(place, self.inner), 1, self.parts(place))
        return gather(block, self.axis(place, self.outer), 1, self.blocks(place))
