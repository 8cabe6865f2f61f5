"""Groups of mirrors that share a hub, which is one member at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
class HubGroups:
    """The ranks of each group; each member is its group's hub for `turn` steps, one after the other."""

    ranks: tuple[tuple[int, ...], ...]
    turn: int

    @staticmethod
    def of(groups: int | Sequence[Sequence[int]], turn: int, members: int) -> HubGroups:
        """Neighbouring ranks in groups of a size, or as given. Raises CompositionError where `members` ranks are not in one group each."""
        if isinstance(groups, int):
            return HubGroups(tuple(tuple(range(start, min(start + groups, members))) for start in range(0, members, groups)), turn)
        given = tuple(tuple(group) for group in groups)
        if sorted(rank for group in given for rank in group) != list(range(members)) or not all(given):
            raise CompositionError(
                f"Overlay(groups={groups!r}) does not have each of the ranks 0 to {members - 1} in exactly one group: there are {members} "
                "members that exchange, one for each site in gaia; put each into one group, and leave no group empty."
            )
        return HubGroups(given, turn)

    def others(self, rank: int) -> list[int]:
        """The other members of the group of `rank`."""
        return [other for other in self._group(rank) if other != rank]

    def hub(self, rank: int, clock: int) -> int:
        """The hub of the group of `rank` at `clock`."""
        return self._hub_of(self._group(rank), clock)

    def hubs(self, rank: int, clock: int) -> list[int]:
        """The hubs of the other groups at `clock`."""
        return [self._hub_of(group, clock) for group in self.ranks if rank not in group]

    def _group(self, rank: int) -> tuple[int, ...]:
        return next(group for group in self.ranks if rank in group)

    def _hub_of(self, group: tuple[int, ...], clock: int) -> int:
        return group[clock // self.turn % len(group)]
