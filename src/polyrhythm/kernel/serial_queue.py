"""What a blocking program has handed over to its runtime: one at a time, in the order in which it came."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class SerialQueue(Generic[T]):
    """Admits an item when it is due and the one before it has left.

    One order for all workers is what lets them ask each other without confusion: sums through shared memory have no names, and a
    worker that asked in another order would wait for ever. `error` is what one in the line has failed with, until somebody was told.
    """

    __slots__ = ("_busy", "_due", "_waiting", "error")

    def __init__(self) -> None:
        self._waiting: deque[T] = deque()
        self._due: set[T] = set()
        self._busy = False
        self.error: BaseException | None = None

    @property
    def idle(self) -> bool:
        """Whether nobody is in it, and no error is to be told."""
        return not self._busy and not self._waiting and self.error is None

    def join(self, item: T) -> None:
        """Stand in line; not due yet."""
        self._waiting.append(item)

    def call(self, item: T) -> None:
        """Let `item` be due."""
        self._due.add(item)

    def admit(self) -> T | None:
        """The item whose turn has come, if there is one; it must `leave`."""
        if self._busy or not self._waiting or self._waiting[0] not in self._due:
            return None
        self._busy = True
        item = self._waiting.popleft()
        self._due.remove(item)
        return item

    def leave(self, error: BaseException | None = None) -> None:
        """Whoever was admitted has ended; the first error is kept."""
        self._busy = False
        if self.error is None:
            self.error = error

    def take_error(self) -> BaseException | None:
        """The error, which is told now."""
        error, self.error = self.error, None
        return error

    def clear(self) -> list[T]:
        """Those who still wait, sent away."""
        waiting = list(self._waiting)
        self._waiting.clear()
        self._due.clear()
        return waiting
