"""Networks of which some blocks are divided by samples and others by place (Dryden et al., IPDPS 2019, section 5).

The distributions of the blocks are a shortest path: a block takes what its code computes and sends, on the rank that takes longest, and
between two blocks it takes what is sent to bring the batch from one distribution to the other.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise, permutations, product
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from polyrhythm.errors import CompositionError
from polyrhythm.partition.convolution.cut import spatial_cut
from polyrhythm.partition.convolution.distribution import Distribution, ImageBatch, Redistributed, redistributed, way
from polyrhythm.partition.convolution.ends import WholeSamples
from polyrhythm.partition.convolution.entrance import DistributedBatch
from polyrhythm.partition.convolution.image_style import ImageStyle
from polyrhythm.partition.counted_axis import CountedAxis
from polyrhythm.partition.place import Place
from polyrhythm.partition.style import Style

Shape = tuple[int, int, int, int]
Costs = Callable[[int, Distribution], float]
Edges = Callable[[int, Distribution, Distribution], float]


@dataclass(frozen=True, slots=True)
class Rates:
    """What a rank computes and sends in a second, and how long each operation among ranks takes besides."""

    flops_per_second: float
    bytes_per_second: float
    seconds_per_call: float = 0.0

    def seconds(self, flops: float, place: Place) -> float:
        """How long so many operations take, with what was counted at a place."""
        nbytes = sum(sum(axis.nbytes.values()) for axis in place.axes.values())
        calls = sum(sum(axis.calls.values()) for axis in place.axes.values())
        return flops / self.flops_per_second + nbytes / self.bytes_per_second + calls * self.seconds_per_call


@dataclass(frozen=True, slots=True)
class HybridPlan:
    """A distribution for each block, and the seconds that a step takes with it."""

    distributions: tuple[Distribution, ...]
    seconds: float

    def extended(self, distribution: Distribution, seconds: float) -> HybridPlan:
        """The plan with one more block."""
        return HybridPlan((*self.distributions, distribution), self.seconds + seconds)


def distributions(axes: Sequence[str]) -> list[Distribution]:
    """All distributions over all of these axes.

    Examples:
        >>> [each.dim("a") for each in distributions(["a"])]
        [2, 3, 0]
    """
    found = []
    for count in range(max(len(axes) - 2, 0), len(axes) + 1):
        for samples in permutations(axes, count):
            rest = [axis for axis in axes if axis not in samples]
            places = dict.fromkeys(permutations([*rest, None, None], 2))
            found += [Distribution(samples, *each) for each in places if set(rest) <= set(each)]
    return list(dict.fromkeys(found))


def shortest(blocks: int, choices: Sequence[Distribution], cost: Costs, edge: Edges) -> HybridPlan:
    """The distributions of so many blocks that take the least; the first may be any."""
    best = {each: HybridPlan((each,), cost(0, each)) for each in choices}
    for block in range(1, blocks):
        here = {each: cost(block, each) for each in choices}
        best = {each: _least(plan.extended(each, edge(block, last, each) + here[each]) for last, plan in best.items()) for each in choices}
    return _least(iter(best.values()))


def _least(plans: Iterator[HybridPlan]) -> HybridPlan:
    return min(plans, key=lambda plan: plan.seconds)


class HybridCut:
    """The blocks of an `nn.Sequential` for inputs of that shape, (samples, channels, height, width), up to where the images end.

    Raises CompositionError as `spatial_cut` does, and for a model whose blocks are not one after the other.
    """

    def __init__(self, model: nn.Module, shape: Shape) -> None:
        if not isinstance(model, nn.Sequential):
            raise CompositionError(
                f"Blocks that follow each other can be divided in turn, and this is {type(model).__name__}: give nn.Sequential."
            )
        self._cut = spatial_cut(model, shape)
        dropped = [name for name, style in self._cut.items() if not style.by_samples]
        if dropped:
            raise CompositionError(
                f"{dropped[0]} drops elements of images that are divided by samples in turn: do so after the images end."
            )
        self._end = next(name for name, style in self._cut.items() if style.ends)
        names = [name for name, _ in model.named_children()]
        self.names = names[: names.index(self._end.split(".")[0]) + 1]
        self._blocks = [copy.deepcopy(model.get_submodule(name)).to("meta") for name in self.names]
        self._shapes = list(_shapes(self._blocks, shape))

    def plan(self, mesh: Mapping[str, int], rates: Rates) -> HybridPlan:
        """The distributions over all axes of the mesh, of these sizes, that take the least time."""
        return shortest(len(self.names), distributions(list(mesh)), *self.times(mesh, rates))

    def times(self, mesh: Mapping[str, int], rates: Rates) -> tuple[Costs, Edges]:
        """What a block takes in a distribution, and what it takes to bring its batch from one to another before it."""

        def cost(block: int, each: Distribution) -> float:
            return _longest(mesh, lambda place: self._cost(block, each, place, rates))

        @cache
        def one(block: int, before: Distribution, after: Distribution) -> float:
            return _longest(mesh, lambda place: self._move(block, before, after, place, rates))

        def edge(block: int, before: Distribution, after: Distribution) -> float:
            moves = way(before, after)
            if moves is None:
                return math.inf
            reached = list(accumulate(moves, lambda here, move: here.moved(*move), initial=before))
            return sum(one(block, *pair) for pair in pairwise(reached))

        return cost, edge

    def styles(self, plan: Sequence[Distribution]) -> dict[str, Style]:
        """The styles by module, for one distribution of each block. The first block is given its part of a batch that is divided so."""
        found: dict[str, Style] = {}
        for number, name in enumerate(self.names):
            inner = self._styles(number, plan[number])
            before = plan[max(number - 1, 0)]
            if before != plan[number]:
                own = tuple((key.removeprefix(name).removeprefix("."), style) for key, style in inner.items())
                inner = {name: Redistributed(own, self.batch(number), before, plan[number])}
            found |= inner
        return found

    def entrance(self, plan: Sequence[Distribution]) -> DistributedBatch:
        """How the first block is given a batch."""
        return DistributedBatch(self.batch(0), plan[0])

    def batch(self, block: int) -> ImageBatch:
        """What a block is given."""
        samples, _, height, width = self._shapes[block]
        return ImageBatch(samples, height, width)

    def _styles(self, block: int, distribution: Distribution) -> dict[str, Style]:
        name = self.names[block]
        own = {key: style for key, style in self._cut.items() if key == name or key.startswith(f"{name}.")}
        return {key: self._divided(key, style, distribution) for key, style in own.items()}

    def _divided(self, name: str, style: ImageStyle, distribution: Distribution) -> Style:
        """A style of the cut by place, for this distribution."""
        divided = style.among(distribution.samples, (distribution.height, distribution.width))
        return WholeSamples(divided, self.batch(0), distribution) if name == self._end else divided

    def _cost(self, block: int, distribution: Distribution, place: Place, rates: Rates) -> float:
        local: Any = nn.Sequential()
        local.add_module(self.names[block], copy.deepcopy(self._blocks[block]))
        for name, style in self._styles(block, distribution).items():
            parent, _, last = name.rpartition(".")
            setattr(local.get_submodule(parent), last, style.local(local.get_submodule(name), name, place))
        value = self._part(block, distribution, place)
        with FlopCounterMode(display=False) as counter:
            local(value).sum().backward()
        return rates.seconds(counter.get_total_flops(), place)

    def _move(self, block: int, before: Distribution, after: Distribution, place: Place, rates: Rates) -> float:
        moved: Any = redistributed(self._part(block, before, place), place, self.batch(block), before, after)
        moved.sum().backward()
        return rates.seconds(0, place)

    def _part(self, block: int, distribution: Distribution, place: Place) -> Tensor:
        dtype = next((value.dtype for each in self._blocks for value in each.parameters()), None)
        whole = torch.empty(self._shapes[block], dtype=dtype, device="meta")
        return self.batch(block).part(whole, place, distribution).detach().requires_grad_()


def _longest(mesh: Mapping[str, int], seconds: Callable[[Place], float]) -> float:
    """The seconds of the rank that takes longest."""
    ranks = product(*(range(size) for size in mesh.values()))
    places = (Place({name: CountedAxis(name, mesh[name], k) for name, k in zip(mesh, index, strict=True)}) for index in ranks)
    return max(seconds(place) for place in places)


def _shapes(blocks: Sequence[nn.Module], shape: Shape) -> Iterator[Shape]:
    """What each block is given."""
    dtype = next((value.dtype for each in blocks for value in each.parameters()), None)
    value = torch.empty(shape, dtype=dtype, device="meta")
    with torch.no_grad():
        for block in blocks:
            yield tuple(value.shape)  # type: ignore[misc]
            value = copy.deepcopy(block).eval()(value)
