"""Performs a handshake on a socket, in the loop."""

from __future__ import annotations

import socket
from collections.abc import Callable

from polyrhythm.core.processes.transport.handshake import Handshake, Session, Turn
from polyrhythm.core.processes.transport.loop import READ, EventLoop
from polyrhythm.errors import WireError

Proved = Callable[[socket.socket, Session], None]
Failed = Callable[[Exception | None], None]


class HandshakeDriver:
    """Reads exactly what `steps` ask for, so that no byte behind the handshake is taken with it.

    `proved` is given the socket, which is watched no more, and the session. `failed` is called instead when the handshake cannot come to
    an end, with None where the peer just closed the connection; the socket is closed then. After `close` neither is called.
    What is read is plain bytes: descriptors that someone sends along are never received.
    """

    def __init__(self, loop: EventLoop, connection: socket.socket, steps: Handshake, proved: Proved, failed: Failed) -> None:
        self.turns = 0
        """The number of the peer's messages that have come."""
        self._loop = loop
        self._socket = connection
        self._steps = steps
        self._proved = proved
        self._failed = failed
        self._wanted = 0
        self._got = b""
        self._over = False
        connection.setblocking(False)
        loop.watch(connection, READ, lambda _: self.advance())

    def begin(self) -> None:
        """Send what this side sends first, if anything."""
        self._step(lambda: next(self._steps))

    def advance(self) -> None:
        """Take in what has come so far."""
        while not self._over:
            try:
                data = self._socket.recv(self._wanted - len(self._got))
            except BlockingIOError:
                return
            except OSError as problem:
                self._fail(problem)
                return
            self._got += data
            if not data:
                self._fail(None)
            elif len(self._got) == self._wanted:
                self._take()

    def close(self) -> None:
        """Give the socket back."""
        if not self._over:
            self._end()
            self._socket.close()

    def _take(self) -> None:
        taken, self._got = self._got, b""
        self.turns += 1
        self._step(lambda: self._steps.send(taken))

    def _step(self, step: Callable[[], Turn]) -> None:
        try:
            turn = step()
            # the buffer of a fresh socket holds more than all of a handshake; who has filled it is no peer
            if turn.reply and self._socket.send(turn.reply) < len(turn.reply):
                raise WireError("A peer that was not authenticated left no room for an answer.")
            self._wanted = turn.wanted
            if not turn.wanted:
                self._steps.send(b"")
        except StopIteration as stop:
            self._end()
            self._proved(self._socket, stop.value)
        except (WireError, OSError) as problem:
            self._fail(problem)

    def _fail(self, why: Exception | None) -> None:
        self.close()
        self._failed(why)

    def _end(self) -> None:
        self._over = True
        self._loop.forget(self._socket)
