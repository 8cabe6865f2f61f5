"""Which workers form a group: by where they run, by number, or by hand."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from polyrhythm.core.kernel.job import Location
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


class Groups(Protocol):
    """Frozen settings."""

    def divide(self, locations: Sequence[Location]) -> list[list[int]]:
        """The ranks of each group, in order; every rank in one of them. Raises CompositionError for workers that it cannot divide."""


@dataclass(frozen=True, slots=True)
class BySite:
    """The workers of a site are a group, in the order of the sites' first workers."""

    def divide(self, locations: Sequence[Location]) -> list[list[int]]:
        """By the names of sites."""
        return _alike([location.site for location in locations])


@dataclass(frozen=True, slots=True)
class ByHost:
    """The workers of a host are a group, in the order of the hosts' first workers."""

    def divide(self, locations: Sequence[Location]) -> list[list[int]]:
        """By the names of sites and hosts."""
        return _alike([(location.site, location.host) for location in locations])


@dataclass(frozen=True, slots=True)
@checked
class OfSize:
    """Neighbouring ranks form groups of `size` workers; the last may be smaller."""

    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise CompositionError(f"OfSize({self.size}) has empty groups: give groups of 1 worker or more.")

    def divide(self, locations: Sequence[Location]) -> list[list[int]]:
        """In order of ranks."""
        ranks = range(len(locations))
        return [list(ranks[start : start + self.size]) for start in range(0, len(ranks), self.size)]


@dataclass(frozen=True, slots=True)
@checked
class InGroups:
    """`count` groups of neighbouring ranks, whose sizes differ by at most one; as many as there are workers, where they are fewer."""

    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise CompositionError(f"InGroups({self.count}) has no groups: give 1 or more.")

    def divide(self, locations: Sequence[Location]) -> list[list[int]]:
        """As numpy.array_split divides the ranks."""
        count = min(self.count, len(locations))
        size, larger = divmod(len(locations), count)
        starts = [group * size + min(group, larger) for group in range(count + 1)]
        return [list(range(start, end)) for start, end in itertools.pairwise(starts)]


@dataclass(frozen=True, slots=True)
@checked
class Given:
    """Explicit groups: the ranks of each."""

    ranks: tuple[tuple[int, ...], ...]

    def divide(self, locations: Sequence[Location]) -> list[list[int]]:
        """As given. Raises CompositionError where a rank is missing, or in two groups."""
        given = sorted(rank for group in self.ranks for rank in group)
        if given != list(range(len(locations))) or not all(self.ranks):
            raise CompositionError(
                f"{self} does not contain each of the ranks 0 to {len(locations) - 1} exactly once: put every worker into one group, "
                "and leave no group empty."
            )
        return [list(group) for group in self.ranks]


def groups_of(given: Groups | str | int | Sequence[Sequence[int]]) -> Groups:
    """`given`, or what "site", "host", a size or lists of ranks stand for. Raises CompositionError for anything else."""
    if isinstance(given, str):
        if given not in _NAMED:
            raise _no_groups(given)
        return _NAMED[given]
    if isinstance(given, int) and not isinstance(given, bool):
        return OfSize(given)
    if isinstance(given, (list, tuple)):
        return Given(tuple(tuple(group) for group in given))
    if callable(getattr(type(given), "divide", None)):
        return given  # type: ignore[return-value]
    raise _no_groups(given)


_NAMED: dict[str, Groups] = {"site": BySite(), "host": ByHost()}
MEMBERS: tuple[Groups, ...] = (BySite(), ByHost(), OfSize(2), InGroups(2), Given(((0, 2), (1, 3))))
"""One of each kind: the laws are tested over this list, with four workers."""


def _alike(keys: Sequence[object]) -> list[list[int]]:
    found: dict[object, list[int]] = {}
    for rank, key in enumerate(keys):
        found.setdefault(key, []).append(rank)
    return list(found.values())


def _no_groups(given: object) -> CompositionError:
    ways = " or ".join(map(repr, _NAMED))
    return CompositionError(f"groups={given!r} is no way to form groups: give {ways}, a size, or lists of ranks.")
