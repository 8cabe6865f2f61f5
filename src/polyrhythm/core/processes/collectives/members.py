"""The members of a group who wait for each other in memory that they share, and those of them who are gone."""

from __future__ import annotations

from collections.abc import Sequence

from polyrhythm.core.shared_memory import MemoryGroup, PieceGroup


class WaitedMembers:
    """Those for whom one of `members` waits in its `group`."""

    def __init__(self, group: MemoryGroup | PieceGroup, members: Sequence[str]) -> None:
        self.names = tuple(members)
        self._group = group
        self._gone: list[str] = []

    def lose(self, name: str, how: str) -> None:
        """Wait for the actor `name` no longer, if it is a member; what it had given before still counts."""
        if name in self.names:
            self._gone.append(f"{name} {how}")
            self._group.lose(self.names.index(name))

    def lose_all(self) -> None:
        """Stop waiting for the others."""
        for rank in range(self._group.ranks):
            self._group.lose(rank)

    def named(self, problem: ConnectionAbortedError) -> ConnectionAbortedError:
        """The error with the names of those who are gone."""
        return ConnectionAbortedError("; ".join(self._gone) or str(problem))
