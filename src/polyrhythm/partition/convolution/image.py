"""Images that are divided over axes of the mesh by height and by width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from polyrhythm.partition.axis import Axis
from polyrhythm.partition.axis_of_one import AxisOfOne
from polyrhythm.partition.convolution.window import Line
from polyrhythm.partition.moves import gather, shard
from polyrhythm.partition.place import Place

Weights = tuple[float, ...] | None


@dataclass(frozen=True, slots=True)
class Image:
    """Images (…, `height`, `width`), divided over the two `axes` by height and by width; None for what is not divided.

    `weights` are the shares of the ranks of each axis, by default equal.
    """

    height: int
    width: int
    axes: tuple[str | None, str | None] = ("h", "w")
    weights: tuple[Weights, Weights] = (None, None)

    @property
    def along(self) -> tuple[str, ...]:
        """The axes over which they are divided."""
        return tuple(axis for axis in self.axes if axis)

    def over(self, axes: tuple[str | None, str | None]) -> Image:
        """The same, divided over other axes."""
        return replace(self, axes=axes)

    def lines(self, place: Place) -> tuple[Line, Line]:
        """The two dimensions as this rank sees them."""
        sizes = (self.height, self.width)
        height, width = (Line(k + 2, sizes[k], _axis(place, self.axes[k]), self.weights[k] if self.axes[k] else None) for k in range(2))
        return height, width

    def divided(self, place: Place) -> list[Axis]:
        """The axes over which it is divided."""
        return [place.axis(name) for name in self.axes if name]

    def part(self, value: Tensor, place: Place) -> Tensor:
        """Invariant to varying: this rank's part of whole images. Raises ValueError for images of another size."""
        if tuple(value.shape[-2:]) != (self.height, self.width):
            raise ValueError(
                f"Images of {tuple(value.shape[-2:])} were given, and the cut is for {(self.height, self.width)}: make it for these."
            )
        for line in self.lines(place):
            value = shard(value, line.axis, line.dim, line.sizes)
        return value

    def join(self, value: Tensor, place: Place) -> Tensor:
        """Varying to invariant: the whole images."""
        for line in reversed(self.lines(place)):
            value = gather(value, line.axis, line.dim, line.sizes)
        return value


def _axis(place: Place, name: str | None) -> Axis:
    return place.axis(name) if name else AxisOfOne("whole")


def check_part(value: Tensor, lines: Sequence[Line]) -> None:
    """Raises ValueError for a part of images of another size than the cut was made for."""
    own = tuple(line.sizes[line.axis.index] for line in lines)
    if tuple(value.shape[-2:]) != own:
        raise ValueError(
            f"This rank has {own} of each image at this layer, and was given {tuple(value.shape[-2:])}: make the cut for this size."
        )
