"""An axis along which each replica of a model is divided in its own way: machines of unequal speed have unequal parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

from polyrhythm.core.kernel.coordinates import Coordinates, FullGrid, SomeOfGrid
from polyrhythm.errors import CompositionError

Axes = tuple[tuple[str, int], ...]
"""The names of a mesh's axes with their sizes."""


@dataclass(frozen=True)
class UnequalAxis:
    """The axis of that `name`: for each replica, `holders` has the coordinate that holds each unit of the model, in the order of units.

    Units with the same holders in every replica are one part of the model: that is what is exchanged together, by one worker of each
    replica. A worker may be in several parts. Raises CompositionError for holders that cannot be.

    Examples:
        >>> axis = UnequalAxis("stage", ((0, 0, 1, 1), (0, 1, 1, 2)))
        >>> axis.lengths, axis.parts, axis.part_of_unit
        ((2, 3), ((0, 0), (0, 1), (1, 1), (1, 2)), (0, 1, 2, 3))
    """

    name: str
    holders: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        units = {len(own) for own in self.holders}
        if len(units) != 1 or 0 in units or any(set(own) != set(range(max(own) + 1)) for own in self.holders):
            raise CompositionError(
                f"UnequalAxis({self.name!r}, {self.holders!r}) has other units in some replicas, or coordinates without any: give each "
                "replica the same units, and each of its coordinates one or more."
            )

    @property
    def lengths(self) -> tuple[int, ...]:
        """The number of coordinates in each replica."""
        return tuple(max(own) + 1 for own in self.holders)

    @cached_property
    def parts(self) -> tuple[tuple[int, ...], ...]:
        """For each part of the model, its holder in each replica."""
        return tuple(dict.fromkeys(zip(*self.holders, strict=True)))

    @cached_property
    def part_of_unit(self) -> tuple[int, ...]:
        """The number of the part that has each unit."""
        numbers = {part: number for number, part in enumerate(self.parts)}
        return tuple(numbers[part] for part in zip(*self.holders, strict=True))

    def refusal(self, axes: Axes, data: Sequence[str], sharded: Sequence[str]) -> str:
        """Why a mesh of these axes, those of `data` with replicas, cannot be divided so, with a remedy; "" if it can."""
        sizes, most = dict(axes), max(self.lengths)
        if self.name in data or sharded or sizes.get(self.name) != most:
            return (
                f"cannot be unequal along {self.name!r}, which has at most {most} coordinates: name an axis of the parts of a model, of "
                "that size, and no axis along which replicas share their state."
            )
        if (replicas := prod(size for name, size in axes if name in data)) != len(self.holders):
            return f"has {replicas} replicas, and {len(self.holders)} are divided: divide each of them once."
        return ""

    def grid(self, axes: Axes, data: Sequence[str]) -> SomeOfGrid:
        """The coordinates that workers have: along this axis as many as their replica has."""
        place = [name for name, _ in axes].index(self.name)
        replicas = FullGrid(tuple(size if name in data else 1 for name, size in axes))

        def kept(at: Coordinates) -> bool:
            replica = replicas.rank([each if name in data else 0 for each, (name, _) in zip(at, axes, strict=True)])
            assert replica is not None, "all of them are there"
            return at[place] < self.lengths[replica]

        return SomeOfGrid(tuple(size for _, size in axes), kept)

    def coordinates_of_parts(self, axes: Axes, data: Sequence[str]) -> Iterator[tuple[str, list[Coordinates]]]:
        """The name of each part of the model, and the coordinates of its holder in each replica.

        Where a replica is divided along other axes too, each of their coordinates has parts of its own.
        """
        names = [name for name, _ in axes]
        outer = list(product(*(range(size) if name in data else (0,) for name, size in axes)))
        others = [name for name, size in axes if name not in (*data, self.name) and size > 1]
        for number, holders in enumerate(self.parts):
            for inner in product(*(range(size) if name in others else (0,) for name, size in axes)):
                own = [holders, *([inner[names.index(name)]] * len(outer) for name in others)]
                found = [
                    tuple(dict(zip((self.name, *others), each, strict=True)).get(name, at) for name, at in zip(names, replica, strict=True))
                    for replica, each in zip(outer, zip(*own, strict=True), strict=True)
                ]
                yield ".".join([f"part{number}", *(str(inner[names.index(name)]) for name in others)]), found
