"""The members of a run or of an exchange as one actor knows them: who is there, who has come, who has left.

Every coroutine that continues after a loss keeps one, and applies each notice of a loss to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache


@dataclass(frozen=True)
class View:
    """The `members` in the order of ranks after `epoch` changes, and since the beginning who has `joined` and who has `left`, in order.

    A name that has left is never used again.

    Examples:
        >>> View.of(["worker/0", "worker/1", "worker/2"]).without("worker/1")
        View(epoch=1, members=('worker/0', 'worker/2'), joined=(), left=('worker/1',))
    """

    epoch: int
    members: tuple[str, ...]
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    @staticmethod
    def of(members: Sequence[str]) -> View:
        """The view of a run that begins with `members`: one value for all callers, since each of thousands of actors keeps it."""
        return _first(tuple(members))

    def without(self, *names: str) -> View:
        """The next view, in which these have left; this one where none of them is present."""
        return _next(self, names)

    @property
    def first(self) -> str:
        """The member of the lowest rank, which does what one must do for all."""
        assert self.members, "a run ends with its last worker"
        return self.members[0]

    @property
    def size(self) -> int:
        """The number of members."""
        return len(self.members)

    def present(self, name: str) -> bool:
        """True if `name` is a member."""
        return name in self._ranks

    def rank(self, name: str) -> int:
        """The place of a member among those that are present."""
        return self._ranks[name]

    @cached_property
    def _ranks(self) -> dict[str, int]:
        return {member: rank for rank, member in enumerate(self.members)}


@lru_cache(maxsize=16)
def _first(members: tuple[str, ...]) -> View:
    return View(0, members)


@lru_cache(maxsize=16)
def _next(view: View, names: tuple[str, ...]) -> View:
    leaving = tuple(name for name in view.members if name in names)
    if not leaving:
        return view
    return View(view.epoch + 1, tuple(name for name in view.members if name not in leaving), view.joined, (*view.left, *leaving))
