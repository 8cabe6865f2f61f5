"""Connections whose callers have not proved who they are: few of them, and not for long."""

from __future__ import annotations

from collections.abc import Callable

from polyrhythm.core.processes.transport.handshake_driver import HandshakeDriver
from polyrhythm.core.processes.transport.loop import EventLoop, LoopTimer

MOST = 128
"""The most at once; each has a socket and less than a kilobyte of what it sent."""
MOST_OF_ONE_SOURCE = 32
PROOF_SECONDS = 5.0


class Strangers:
    """Drops the oldest for a new one where there are too many, in all or of one source, and each that takes too long.

    So a flood costs a caller that has the secret one more call at most, and one from another address not even that. `dropped` is called
    for each that is dropped.
    """

    def __init__(self, loop: EventLoop, dropped: Callable[[], None]) -> None:
        self._loop = loop
        self._dropped = dropped
        self._sources: dict[HandshakeDriver, str] = {}
        self._timers: dict[HandshakeDriver, LoopTimer] = {}

    def add(self, stranger: HandshakeDriver, source: str) -> None:
        """A caller from `source` has come."""
        self._make_room([other for other, its in self._sources.items() if its == source], MOST_OF_ONE_SOURCE)
        self._make_room(list(self._sources), MOST)
        self._sources[stranger] = source
        self._timers[stranger] = self._loop.after(PROOF_SECONDS, lambda: self._drop(stranger))

    def remove(self, stranger: HandshakeDriver) -> None:
        """Forget a caller, whose handshake has ended or is given up."""
        del self._sources[stranger]
        self._timers.pop(stranger).cancel()

    def close(self) -> None:
        """Give all sockets back."""
        for stranger in list(self._sources):
            self.remove(stranger)
            stranger.close()

    def _make_room(self, others: list[HandshakeDriver], most: int) -> None:
        if len(others) >= most:
            others[0].advance()  # its proof may have come, and not been looked at yet
            self._drop(others[0])

    def _drop(self, stranger: HandshakeDriver) -> None:
        if stranger in self._sources:
            self.remove(stranger)
            stranger.close()
            self._dropped()
