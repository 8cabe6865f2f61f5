"""The members of an exchange: a run has many groups, and an actor may be in several.

A strategy's plan makes a group for each member; collectives, topologies and consistency rules are given it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from polyrhythm.core.kernel.names import server, worker


@dataclass(frozen=True, slots=True)
class Group:
    """Actors that exchange with each other, as one of them sees them.

    `members` are their names in the order of ranks, and `rank` is the actor's own. `name` is unique in a run; that of all workers is "".
    `seed` is the run's.

    Examples:
        >>> Group.of_workers(3, rank=1).members
        ('worker/0', 'worker/1', 'worker/2')
    """

    name: str
    members: tuple[str, ...]
    rank: int
    seed: int = 0
    size: int = field(init=False, repr=False, compare=False)
    """The number of members."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", len(self.members))

    @staticmethod
    def of_workers(count: int, rank: int, seed: int = 0) -> Group:
        """All workers of a run, as the one of `rank` sees them."""
        return Group("", workers(count), rank, seed)

    @property
    def first(self) -> str:
        """The member of rank 0, which does what one must do for all."""
        return self.members[0]

    @property
    def is_first(self) -> bool:
        """True if the actor is the first member."""
        return self.rank == 0


@lru_cache(maxsize=16)
def workers(count: int) -> tuple[str, ...]:
    """The names of that many workers: one tuple for all callers, since each of a thousand workers keeps it."""
    return tuple(worker(rank) for rank in range(count))


@lru_cache(maxsize=16)
def servers(count: int) -> tuple[str, ...]:
    """The names of that many servers."""
    return tuple(server(rank) for rank in range(count))
