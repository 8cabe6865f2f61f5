"""The sockets on which a process waits for others: a connection is handed on when its caller is authenticated."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from polyrhythm.errors import WireError
from polyrhythm.processes.transport.connector import ConnectionFactory
from polyrhythm.processes.transport.frame_link import FrameLink
from polyrhythm.processes.transport.handshake import Listener
from polyrhythm.processes.transport.loop import READ
from polyrhythm.processes.transport.wire import Frame

_PROOF_SECONDS = 15.0
_PAUSE_SECONDS = 0.05


class Reception:
    """Calls `admit(name, lane, link)` for each caller that is authenticated; a WireError that it raises ends the connection.

    Everything happens in the loop of `factory`.
    """

    def __init__(
        self, factory: ConnectionFactory, listeners: Sequence[socket.socket], admit: Callable[[str, int, FrameLink], None]
    ) -> None:
        self._factory = factory
        self._listeners = listeners
        self._admit = admit
        self._unproven: set[FrameLink] = set()
        self._paused: set[socket.socket] = set()
        self._closed = False
        for listener in listeners:
            listener.setblocking(False)
            self._watch(listener)

    def close(self) -> None:
        """Give back the listening sockets, and all connections whose callers are not authenticated."""
        self._closed = True
        for listener in self._listeners:
            if listener not in self._paused:
                self._factory.loop.forget(listener)
            listener.close()
        for link in list(self._unproven):
            link.close()

    def _watch(self, listener: socket.socket) -> None:
        if not self._closed:
            self._paused.discard(listener)
            self._factory.loop.watch(listener, READ, lambda _: self._accept(listener))

    def _pause(self, listener: socket.socket) -> None:
        """Leave connections in the queue for a moment: while the system has no descriptor to give, the loop would try without end."""
        self._paused.add(listener)
        self._factory.loop.forget(listener)
        self._factory.loop.after(_PAUSE_SECONDS, lambda: self._watch(listener))

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError:
            self._pause(listener)
            return
        link = self._factory.link(connection)
        ours = Listener(self._factory.identity)
        self._unproven.add(link)
        link.on_frame = lambda it, frame: self._advance_handshake(ours, it, frame)
        link.on_close = lambda it, _: self._unproven.discard(it)
        self._factory.loop.after(_PROOF_SECONDS, lambda: self._dismiss(link))

    def _dismiss(self, link: FrameLink) -> None:
        if link in self._unproven:
            self._factory.tally.rejected += 1
            link.close(WireError("A peer was not authenticated in time."))

    def _advance_handshake(self, ours: Listener, link: FrameLink, frame: Frame) -> None:
        try:
            name, reply = ours.advance(frame)
            if reply is not None:
                link.send_control(reply)
            else:
                self._admit(name, ours.lane, link)
                self._unproven.discard(link)
        except WireError as problem:
            self._factory.tally.rejected += 1
            link.close(problem)
