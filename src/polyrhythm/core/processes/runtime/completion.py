"""How one thread waits for what another one does."""

from __future__ import annotations

import threading
from typing import Any


class Completion:
    """What a program holds while its coroutine runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._value: Any = None
        self._error: BaseException | None = None
        self._finished = False

    @property
    def finished(self) -> bool:
        """Whether there is nothing to wait for."""
        return self._finished

    def finish(self, value: Any, error: BaseException | None) -> None:
        """Let the program go on; the first call counts."""
        if not self._finished:  # the lock does not show it: the waiting thread takes it again
            self._finished = True
            self._value, self._error = value, error
            self._lock.release()

    def wait(self) -> Any:
        """The coroutine's result, or its error raised. Signals are served while waiting."""
        self._lock.acquire()
        if self._error is not None:
            raise self._error
        return self._value
