"""Opening a connection to another actor, until each has authenticated the other."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

from polyrhythm.errors import WireError
from polyrhythm.processes.transport.addresses import Address, open_socket, tune
from polyrhythm.processes.transport.frame_link import FrameLink, Wiring
from polyrhythm.processes.transport.handshake import UNPROVEN, Caller, Credentials
from polyrhythm.processes.transport.loop import WRITE, Loop
from polyrhythm.processes.transport.wire import Frame, Tally

_FULL_SECONDS = 0.01


@dataclass(slots=True)
class ConnectionFactory:
    """What an actor's connections have in common; `table` has the addresses of all."""

    loop: Loop
    identity: Credentials
    wiring: Wiring
    tally: Tally
    table: dict[str, Address] = field(default_factory=dict)

    def link(self, connection: socket.socket) -> FrameLink:
        """Frames over a new connection, with a peer that is not authenticated."""
        tune(connection, self.wiring.patience)
        link = FrameLink(self.loop, connection, self.wiring, self.tally)
        link.restrict(UNPROVEN)
        return link


class Connector:
    """A connection to the actor `called`, as its lane of that number (0: the connection itself).

    `on_open` is called with the link when the peer is authenticated, and `on_over` when it does not come to that or the link has
    ended, unless by `abort`.
    """

    def __init__(self, factory: ConnectionFactory, called: str, lane: int = 0) -> None:
        self.on_open: Callable[[FrameLink], None] = _ignore_open
        self.on_over: Callable[[Exception | None], None] = _ignore_over
        self.link: FrameLink | None = None
        self._factory = factory
        self._called = called
        self._caller = Caller(factory.identity, called, lane)
        self._dialling: socket.socket | None = None
        self._over = False

    def dial(self) -> None:
        """Begin; everything else happens in the loop."""
        if self._over:
            return
        factory = self._factory
        connection, target = open_socket(factory.table[self._called], factory.table[factory.identity.name].host)
        code = connection.connect_ex(target)
        if code == 0:
            self._begin_handshake(connection)
        elif code == errno.EINPROGRESS:
            self._dialling = connection
            factory.loop.watch(connection, WRITE, lambda _: self._dialled(connection))
        elif code == errno.EAGAIN:  # a local listener whose queue is full
            connection.close()
            factory.loop.after(_FULL_SECONDS, self.dial)
        else:
            connection.close()
            self._end(OSError(code, os.strerror(code)))

    def abort(self) -> None:
        """Give the connection up, however far it is."""
        self._over = True
        self._stop_dialling()
        if self.link is not None:
            self.link.close()

    def _stop_dialling(self) -> None:
        if self._dialling is not None:
            self._factory.loop.forget(self._dialling)
            self._dialling.close()
            self._dialling = None

    def _dialled(self, connection: socket.socket) -> None:
        code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._stop_dialling()
            self._end(OSError(code, os.strerror(code)))
        else:
            self._dialling = None
            self._factory.loop.forget(connection)
            self._begin_handshake(connection)

    def _begin_handshake(self, connection: socket.socket) -> None:
        link = self.link = self._factory.link(connection)
        link.on_frame = self._finish_handshake
        link.on_close = lambda _, why: self._end(why)
        link.send_control(self._caller.hello())

    def _finish_handshake(self, link: FrameLink, frame: Frame) -> None:
        try:
            proof = self._caller.prove(frame)
        except WireError as problem:
            self._factory.tally.rejected += 1
            link.close(problem)
            return
        link.send_control(proof)
        if not self._over:  # it may have broken off while the proof was written
            link.restrict(self._factory.wiring.limits)
            self.on_open(link)

    def _end(self, why: Exception | None) -> None:
        if not self._over:
            self._over = True
            self.on_over(why)


def _ignore_open(link: FrameLink) -> None:
    return None


def _ignore_over(why: Exception | None) -> None:
    return None
