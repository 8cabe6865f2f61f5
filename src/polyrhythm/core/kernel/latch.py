"""A latch, which one coroutine of an actor opens and others wait for.

Topologies, services and `together` make latches; a coroutine waits for one through `Port.wait`.
"""

from __future__ import annotations

from collections.abc import Callable


class Latch:
    """Shut until it is opened, and open from then on. Only coroutines of the same actor use it."""

    __slots__ = ("_calls", "is_open")

    def __init__(self) -> None:
        self.is_open = False
        self._calls: list[Callable[[], None]] = []

    def open(self) -> None:
        """Open it, and let all continue that wait for it."""
        self.is_open = True
        calls, self._calls = self._calls, []
        for call in calls:
            call()

    def when_open(self, call: Callable[[], None]) -> None:
        """Make `call` when it opens, or at once; for the runtime that carries out a `Wait`."""
        if self.is_open:
            call()
        else:
            self._calls.append(call)
