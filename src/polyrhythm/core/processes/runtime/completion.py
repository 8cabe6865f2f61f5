"""The wait of one thread for the result of another.

A `Node` holds one for each coroutine that its program waits for; the store's client and the shutdown wait in the same way.
"""

from __future__ import annotations

import threading
from typing import Any


class Completion:
    """The result, or the error, of a coroutine that a program waits for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._value: Any = None
        self._error: BaseException | None = None
        self.finished = False
        """True if there is nothing to wait for."""

    def finish(self, value: Any, error: BaseException | None) -> None:
        """Let the program continue with `value`, or with `error` raised; the first call counts."""
        if not self.finished:  # the lock does not show it: the waiting thread takes it again
            self.finished = True
            self._value, self._error = value, error
            self._lock.release()

    def wait(self) -> Any:
        """The coroutine's result, or its error raised. Signals are served while waiting."""
        self._lock.acquire()
        if self._error is not None:
            raise self._error
        return self._value
