"""Groups by rank: of a size, of a number, or given one by one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from polyrhythm.core.kernel.location import Location
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class OfSize:
    """Neighbouring ranks form groups of `size` workers; the last may be smaller."""

    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise CompositionError(f"OfSize({self.size}) has empty groups: give groups of 1 worker or more.")

    def divide(self, locations: Sequence[Location]) -> list[list[int]]:
        """Groups in order of ranks."""
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
        """The ranks, divided as by numpy.array_split."""
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
        """The given groups. Raises CompositionError where a rank is missing, or in two groups."""
        given = sorted(rank for group in self.ranks for rank in group)
        if given != list(range(len(locations))) or not all(self.ranks):
            raise CompositionError(
                f"{self} does not contain each of the ranks 0 to {len(locations) - 1} exactly once: put every worker into one group, "
                "and leave no group empty."
            )
        return [list(group) for group in self.ranks]


EXAMPLES = (OfSize(2), InGroups(2), Given(((0, 2), (1, 3))))
