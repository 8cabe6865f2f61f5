"""Ranks as coordinates on named axes, in row-major order: the last axis is the fastest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Protocol

Coordinates = tuple[int, ...]


class RankGrid(Protocol):
    """The coordinates that there are."""

    @property
    def size(self) -> int:
        """Their number."""

    def at(self, rank: int) -> Coordinates:
        """The coordinates of a rank."""

    def rank(self, coordinates: Sequence[int]) -> int | None:
        """The rank at these coordinates; None where there is none."""


@dataclass(frozen=True, slots=True)
class FullGrid:
    """All coordinates of axes of these sizes."""

    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Their number."""
        return prod(self.shape)

    def at(self, rank: int) -> Coordinates:
        found = list[int]()
        for size in reversed(self.shape):
            rank, at = divmod(rank, size)
            found.append(at)
        return tuple(reversed(found))

    def rank(self, coordinates: Sequence[int]) -> int | None:
        rank = 0
        for size, at in zip(self.shape, coordinates, strict=True):
            rank = rank * size + at
        return rank


@dataclass(frozen=True)
class SomeOfGrid:
    """Those coordinates of axes of these sizes that are `kept`; the others are of no rank."""

    shape: tuple[int, ...]
    kept: Callable[[Coordinates], bool]

    @cached_property
    def _every(self) -> tuple[Coordinates, ...]:
        return tuple(filter(self.kept, product(*map(range, self.shape))))

    @cached_property
    def _ranks(self) -> dict[Coordinates, int]:
        return {coordinates: rank for rank, coordinates in enumerate(self._every)}

    @property
    def size(self) -> int:
        """Their number."""
        return len(self._every)

    def at(self, rank: int) -> Coordinates:
        return self._every[rank]

    def rank(self, coordinates: Sequence[int]) -> int | None:
        return self._ranks.get(tuple(coordinates))
