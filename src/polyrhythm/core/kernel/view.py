"""The members of a run or of an exchange as one actor knows them: who is there, who has come, who has left.

Every coroutine that continues after a loss keeps one, and applies each notice of a loss to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import msgspec

from polyrhythm.core.kernel.names import is_worker, rank_of


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
        given = tuple(members)
        known = _LATEST.get(id(given))
        if known is None or known.members is not given:
            known = _first(given)
            if len(_LATEST) == _KEPT:
                _LATEST.clear()
            _LATEST[id(known.members)] = known
        return known

    def without(self, *names: str) -> View:
        """The next view, in which these have left; this one where none of them is present."""
        return _next(self, names) if names else self

    def including(self, *names: str) -> View:
        """The next view, in which these have joined, after those who are there; this one where none are given."""
        return View(self.epoch + 1, (*self.members, *names), (*self.joined, *names), self.left) if names else self

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


_LATEST: dict[int, View] = {}
"""Views that were given lately, by the identity of their members: to compare thousands of names takes each of as many actors a while."""
_KEPT = 16


@lru_cache(maxsize=_KEPT)
def _first(members: tuple[str, ...]) -> View:
    return View(0, members)


@lru_cache(maxsize=16)
def _next(view: View, names: tuple[str, ...]) -> View:
    leaving = tuple(name for name in view.members if name in names)
    if not leaving:
        return view
    return View(view.epoch + 1, tuple(name for name in view.members if name not in leaving), view.joined, (*view.left, *leaving))


@dataclass(frozen=True)
class ViewChange:
    """The change of the workers' view from `before` to `after`, which one step of an authority or several have made.

    `lost` are those of `before` that have left without notice. `steps` are, by name, those that workers had completed which were lost in
    the view before, where they are known.
    """

    before: View
    after: View
    lost: frozenset[str] = frozenset()
    steps: tuple[tuple[str, int], ...] = ()

    @property
    def staying(self) -> tuple[str, ...]:
        """The members of both views, in the order of ranks."""
        return tuple(name for name in self.after.members if self.before.present(name))

    @property
    def joined(self) -> tuple[str, ...]:
        """The members of `after` alone."""
        return tuple(name for name in self.after.members if not self.before.present(name))

    @property
    def left(self) -> tuple[str, ...]:
        """The members of `before` alone, also those that are lost."""
        return tuple(name for name in self.before.members if not self.after.present(name))


class NextView(msgspec.Struct, frozen=True):
    """The text of the notice of a change: the `change`, and the sites and hosts of those who are there after it.

    `memory` is where the processes of one host find the memory that the next members share; empty where there is none.
    """

    change: ViewChange
    locations: tuple[tuple[str, str], ...]
    memory: str = ""


class ViewChanged(Exception):
    """What a program waited for was interrupted, because a worker without which it cannot end is lost: `change` is what follows."""

    def __init__(self, change: ViewChange) -> None:
        super().__init__(f"the workers are now {', '.join(change.after.members)}")
        self.change = change


def next_name(view: View, slots: int, wanted: Sequence[int] = ()) -> str:
    """The name of the next worker to join: its number, modulo the `slots` of the run, is a place that nobody has now.

    That is the first of those `wanted` that is free, else the least.
    """
    taken = {rank_of(name) % slots for name in view.members}
    slot = next(place for place in (*wanted, *range(slots)) if place not in taken)
    used = [rank_of(name) for name in (*view.members, *view.left) if is_worker(name) and rank_of(name) % slots == slot]
    return f"worker/{max(used) + slots if used else slot}"
