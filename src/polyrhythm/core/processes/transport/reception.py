"""The sockets on which a process waits for others: a connection is handed on when its caller is authenticated."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from polyrhythm.core.processes.system.peer_user import is_of_this_user, peer_process
from polyrhythm.core.processes.transport.connector import ConnectionFactory
from polyrhythm.core.processes.transport.frame_link import FrameLink
from polyrhythm.core.processes.transport.handshake import Session, answer
from polyrhythm.core.processes.transport.handshake_driver import HandshakeDriver
from polyrhythm.core.processes.transport.loop import READ
from polyrhythm.core.processes.transport.strangers import Strangers
from polyrhythm.errors import WireError

_PAUSE_SECONDS = 0.05

Admit = Callable[[str, int, FrameLink], None]


class Reception:
    """Calls `admit(name, lane, link)` for each caller that is authenticated and whose name `expects` holds for.

    A WireError that `admit` raises ends the connection. Everything happens in the loop of `factory`.
    """

    def __init__(
        self, factory: ConnectionFactory, listeners: Sequence[socket.socket], admit: Admit, expects: Callable[[str], bool]
    ) -> None:
        self._factory = factory
        self._listeners = listeners
        self._admit = admit
        self._expects = expects
        self._strangers = Strangers(factory.loop, self._reject)
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
        self._strangers.close()

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
            connection, address = listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError:
            self._pause(listener)
            return
        local = connection.family == socket.AF_UNIX
        if local and not is_of_this_user(connection):
            connection.close()
            self._reject()
        else:
            self._begin_handshake(connection, f"process {peer_process(connection)[0]}" if local else str(address[0]))

    def _begin_handshake(self, connection: socket.socket, source: str) -> None:
        def proved(proven: socket.socket, session: Session) -> None:
            self._strangers.remove(driver)
            self._introduce(proven, session)

        def failed(why: Exception | None) -> None:
            self._strangers.remove(driver)
            self._reject()

        self._factory.tune(connection)
        steps = answer(self._factory.identity, self._expects)
        driver = HandshakeDriver(self._factory.loop, connection, steps, proved, failed)
        self._strangers.add(driver, source)
        driver.begin()

    def _introduce(self, connection: socket.socket, session: Session) -> None:
        link = self._factory.link(connection, session)
        try:
            self._admit(session.peer, session.lane, link)
        except WireError as problem:
            self._reject()
            link.close(problem)

    def _reject(self) -> None:
        self._factory.tally.rejected += 1
