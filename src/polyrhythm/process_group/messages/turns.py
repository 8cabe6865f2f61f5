"""The turns of a group's collectives: they begin in the order in which they were issued, a few at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from polyrhythm.core.kernel.latch import Latch


class Turns:
    """Up to `at_once` are under way."""

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._waiting: deque[Latch] = deque()
        self._issued: list[Latch] = []

    def join(self, done: Latch) -> Latch:
        """What opens when the one may begin that is issued now; its own latch `done` opens when it has ended."""
        self._issued = [*self.unfinished(), done]
        turn = Latch()
        if self._free:
            self._free -= 1
            turn.open()
        else:
            self._waiting.append(turn)
        return turn

    def leave(self) -> None:
        """One has ended."""
        if self._waiting:
            self._waiting.popleft().open()
        else:
            self._free += 1

    def unfinished(self) -> Iterator[Latch]:
        """The latches of those that have not ended."""
        return (latch for latch in self._issued if not latch.is_open)
