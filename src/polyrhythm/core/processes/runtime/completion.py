"""The wait of one thread for the result of another.

A `Node` holds one for each coroutine that its program waits for; the store's client and the shutdown wait in the same way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
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


class ProgramWaits:
    """The waits of one program, in its thread, which a `problem` ends all at once: then nothing is waited for any more.

    `awaited` is what the program waits for in words, where that is no message.
    """

    def __init__(self) -> None:
        self.problem: BaseException | None = None
        self.awaited: list[str] = []
        self._all: dict[Completion, None] = {}

    @property
    def any(self) -> bool:
        """True if the program waits."""
        return bool(self._all)

    def wait(self, begin: Callable[[Completion], None], instead: Callable[[], None] = lambda: None) -> Any:
        """The result of what `begin` begins; where there is a problem, it is raised, and `instead` is called."""
        completion = Completion()
        self._all[completion] = None  # entered before the problem is looked at: one that comes in between ends the completion
        try:
            if self.problem is not None:
                instead()
                raise self.problem
            begin(completion)
            return completion.wait()
        finally:
            del self._all[completion]

    def end(self, problem: BaseException) -> None:
        """There is a problem: it is raised by all waits; from another thread."""
        self.problem = problem
        for completion in list(self._all):
            completion.finish(None, problem)
