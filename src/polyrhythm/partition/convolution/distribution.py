"""Batches of images that are divided by samples as well as by place, and the moves from one division to another."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from torch import Tensor, nn

from polyrhythm.errors import CompositionError
from polyrhythm.partition.axis import near_equal
from polyrhythm.partition.convolution.image import Image
from polyrhythm.partition.moves import gather, shard, transpose
from polyrhythm.partition.place import Place
from polyrhythm.partition.style import Style

SAMPLES, HEIGHT, WIDTH = 0, 2, 3


@dataclass(frozen=True, slots=True)
class Distribution:
    """Which axes of the mesh divide the `samples`, one within the other, and which one the `height` and the `width`.

    Examples:
        >>> Distribution(("a",), "b").moved("b", WIDTH)
        Distribution(samples=('a',), height=None, width='b')
    """

    samples: tuple[str, ...] = ()
    height: str | None = None
    width: str | None = None

    @property
    def axes(self) -> tuple[str, ...]:
        """All axes over which a batch is divided."""
        return (*self.samples, *(axis for axis in (self.height, self.width) if axis))

    def dim(self, axis: str) -> int:
        """The dimension that the axis divides."""
        return SAMPLES if axis in self.samples else HEIGHT if axis == self.height else WIDTH

    def moved(self, axis: str, dim: int) -> Distribution:
        """The distribution in which the axis divides another dimension."""
        samples = (*(each for each in self.samples if each != axis), *([axis] if dim == SAMPLES else []))
        height, width = (None if each == axis else each for each in (self.height, self.width))
        return Distribution(samples, axis if dim == HEIGHT else height, axis if dim == WIDTH else width)

    def moves(self) -> Iterator[tuple[str, int]]:
        """What one all-to-all can do: an axis, and the dimension that it then divides. Of several of samples the innermost can move."""
        for axis in (*self.samples[-1:], *(each for each in (self.height, self.width) if each)):
            free = [SAMPLES] if self.dim(axis) != SAMPLES else []
            free += [HEIGHT] if self.height is None else []
            free += [WIDTH] if self.width is None else []
            yield from ((axis, dim) for dim in free)


@dataclass(frozen=True, slots=True)
class ImageBatch:
    """So many `samples` of images of `height` x `width`."""

    samples: int
    height: int
    width: int

    def image(self, distribution: Distribution) -> Image:
        """Its images, as they are divided by place."""
        return Image(self.height, self.width, (distribution.height, distribution.width))

    def sizes(self, place: Place, distribution: Distribution) -> list[tuple[str, tuple[int, ...]]]:
        """The axes that divide samples, with the samples of each rank among those that the axes before have left."""
        found, left = [], self.samples
        for name in distribution.samples:
            axis = place.axis(name)
            found.append((name, near_equal(left, axis.size)))
            left = found[-1][1][axis.index]
        return found

    def part(self, value: Tensor, place: Place, distribution: Distribution) -> Tensor:
        """Invariant to varying: this rank's part of the samples and of their images."""
        for name, sizes in self.sizes(place, distribution):
            value = shard(value, place.axis(name), 0, sizes)
        return self.image(distribution).part(value, place)

    def join(self, value: Tensor, place: Place, distribution: Distribution) -> Tensor:
        """Varying to invariant: all samples, of what is not divided otherwise."""
        for name, sizes in reversed(self.sizes(place, distribution)):
            value = gather(value, place.axis(name), 0, sizes)
        return value

    def moved(self, value: Tensor, place: Place, before: Distribution, name: str, dim: int) -> Tensor:
        """Varying to varying: what is divided as `before` with the axis of that name dividing `dim`."""
        axis, left = place.axis(name), self.samples
        for other, sizes in self.sizes(place, replace(before, samples=tuple(each for each in before.samples if each != name))):
            left = sizes[place.axis(other).index]
        lengths = {SAMPLES: left, HEIGHT: self.height, WIDTH: self.width}
        join = before.dim(name)
        return transpose(value, axis, dim, near_equal(lengths[dim], axis.size), join, near_equal(lengths[join], axis.size))


def way(before: Distribution, after: Distribution) -> tuple[tuple[str, int], ...] | None:
    """The fewest moves from one distribution to another; None if there is no way."""
    reached: dict[Distribution, tuple[tuple[str, int], ...]] = {before: ()}
    waiting = deque([before])
    while waiting and after not in reached:
        here = waiting.popleft()
        for move in here.moves():
            if (there := here.moved(*move)) not in reached:
                reached[there] = (*reached[here], move)
                waiting.append(there)
    return reached.get(after)


@dataclass(frozen=True, slots=True)
class Redistributed:
    """A module that is given a batch divided as `before`, and whose `styles`, by the names within it, are for one divided as `after`.

    The name "" is that of the module itself.
    """

    styles: tuple[tuple[str, Style], ...]
    batch: ImageBatch
    before: Distribution
    after: Distribution

    @property
    def along(self) -> tuple[str, ...]:
        return self.after.axes

    def refusal(self, module: nn.Module, place: Place) -> str:
        if way(self.before, self.after) is None:
            return f"No moves lead from {self.before} to {self.after}: name the same axes in both."
        return next((why for own, style in self.styles if (why := style.refusal(module.get_submodule(own), place))), "")

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        local = module
        for own, style in self.styles:
            found = style.local(module.get_submodule(own), ".".join(filter(None, (name, own))), place)
            parent, _, last = own.rpartition(".")
            if own:
                setattr(module.get_submodule(parent), last, found)
            else:
                local = found

        def move(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            value, *others = args
            return redistributed(value, place, self.batch, self.before, self.after), *others

        local.register_forward_pre_hook(move)
        return local


def redistributed(value: Tensor, place: Place, batch: ImageBatch, before: Distribution, after: Distribution) -> Tensor:
    """Varying to varying: what is divided as `before`, divided as `after`. Raises CompositionError if no moves lead there."""
    moves = way(before, after)
    if moves is None:
        raise CompositionError(f"No moves lead from {before} to {after}: name the same axes in both.")
    for name, dim in moves:
        value, before = batch.moved(value, place, before, name, dim), before.moved(name, dim)
    return value
