"""Background work of a blocking program: one item at a time, in the order in which it was started."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class SerialQueue(Generic[T]):
    """Admits an item when it is due and the one before it has left.

    All workers must have one order: sums through shared memory have no names, and a worker with another order would wait for ever. `error`
    is the first failure of an item, until it is taken.
    """

    __slots__ = ("_busy", "_due", "_waiting", "error")

    def __init__(self) -> None:
        self._waiting: deque[T] = deque()
        self._due: set[T] = set()
        self._busy = False
        self.error: BaseException | None = None

    @property
    def idle(self) -> bool:
        """True if it is empty, and no error is left to be taken."""
        return not self._busy and not self._waiting and self.error is None

    def join(self, item: T) -> None:
        """Append `item`, which is not due yet."""
        self._waiting.append(item)

    def call(self, item: T) -> None:
        """Mark `item` as due."""
        self._due.add(item)

    def put(self, item: T) -> None:
        """Append `item`, which is due at once."""
        self._waiting.append(item)
        self._due.add(item)

    def admit(self) -> T | None:
        """The next item, if it is due and none is admitted; the caller must `leave` when it has ended."""
        if self._busy or not self._waiting or self._waiting[0] not in self._due:
            return None
        self._busy = True
        item = self._waiting.popleft()
        self._due.remove(item)
        return item

    def leave(self, error: BaseException | None = None) -> None:
        """The admitted item has ended; the first error is kept."""
        self._busy = False
        if self.error is None:
            self.error = error

    def take_error(self) -> BaseException | None:
        """Return the error, and forget it."""
        error, self.error = self.error, None
        return error

    def clear(self) -> list[T]:
        """Remove and return the items that still wait."""
        waiting = list(self._waiting)
        self._waiting.clear()
        self._due.clear()
        return waiting
