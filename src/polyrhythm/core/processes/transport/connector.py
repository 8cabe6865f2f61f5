"""Opening a connection to another actor, until each has authenticated the other.

`Outbound` opens the connection to an actor and its lanes so, and `StoreAttempt` the one to a store.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

from polyrhythm.core.processes.system.peer_user import is_of_this_user
from polyrhythm.core.processes.transport.addresses import Address, open_socket, tune
from polyrhythm.core.processes.transport.frame_link import FrameLink, Wiring
from polyrhythm.core.processes.transport.handshake import Credentials, Session, call
from polyrhythm.core.processes.transport.handshake_driver import HandshakeDriver
from polyrhythm.core.processes.transport.loop import WRITE, EventLoop, LoopTimer
from polyrhythm.core.processes.transport.plain import Plain
from polyrhythm.core.processes.transport.sealed import Sealed
from polyrhythm.core.processes.transport.wire import Tally
from polyrhythm.errors import WireError

_FULL_SECONDS = 0.01
_AGAIN_SECONDS = 0.05
"""After a listener has dropped a call to make room; twice as long each time after."""
_LONGEST_SECONDS = 0.4
_GREETED = 2
"""Messages of the listener's after which the caller has sent its proof."""
_PROOFS = 5
"""A listener that drops a caller so often when it has its proof does not want it: no flood is likely to be in time so often."""


@dataclass(slots=True)
class ConnectionFactory:
    """The settings that an actor's connections have in common; `table` has the addresses of all."""

    loop: EventLoop
    identity: Credentials
    wiring: Wiring
    tally: Tally
    table: dict[str, Address] = field(default_factory=dict)

    def tune(self, connection: socket.socket) -> None:
        """Give a new connection its settings in the system."""
        tune(connection, self.wiring.patience)

    def link(self, connection: socket.socket, session: Session) -> FrameLink:
        """Frames over a new connection whose ends have authenticated each other: sealed, unless both ends are on this host."""
        stream = Plain(connection) if connection.family == socket.AF_UNIX else Sealed(connection, session)
        return FrameLink(self.loop, stream, self.wiring, self.tally)


class Connector:
    """A connection to the actor `called`, as its lane of that number (0: the connection itself).

    `on_open` is called with the link when the peer is authenticated, and `on_over` when it does not come to that or the link has
    ended, unless by `abort`. A listener that is flooded may drop a call: it is dialled again, for as long as a connection may lie dead.
    """

    def __init__(self, factory: ConnectionFactory, called: str, lane: int = 0) -> None:
        self.on_open: Callable[[FrameLink], None] = _ignore_open
        self.on_over: Callable[[Exception | None], None] = _ignore_over
        self.link: FrameLink | None = None
        self._factory = factory
        self._called = called
        self._lane = lane
        self._dialling: socket.socket | None = None
        self._handshake: HandshakeDriver | None = None
        self._deadline: LoopTimer | None = None
        self._wait = _AGAIN_SECONDS
        self._proofs = 0
        self._late = False
        self._over = False

    def dial(self) -> None:
        """Begin; everything else happens in the loop."""
        if self._over:
            return
        factory = self._factory
        if self._deadline is None:
            self._deadline = factory.loop.after(factory.wiring.patience, self._run_late)
        connection, target = open_socket(factory.table[self._called], factory.table[factory.identity.name].host)
        try:
            code = connection.connect_ex(target)
        except OSError as problem:  # a name that leads nowhere
            connection.close()
            self._end(problem)
            return
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
        if self._handshake is not None:
            self._handshake.close()
        if self.link is not None:
            self.link.close()

    def _run_late(self) -> None:
        self._late = True

    def _stop_dialling(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        if self._dialling is not None:
            self._factory.loop.forget(self._dialling)
            self._dialling.close()
            self._dialling = None

    def _dialled(self, connection: socket.socket) -> None:
        code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        self._factory.loop.forget(connection)
        self._dialling = None
        if code:
            connection.close()
            self._end(OSError(code, os.strerror(code)))
        else:
            self._begin_handshake(connection)

    def _begin_handshake(self, connection: socket.socket) -> None:
        factory = self._factory
        if connection.family == socket.AF_UNIX and not is_of_this_user(connection):
            connection.close()
            self._end(WireError(f"The process at the address of {self._called} belongs to another user: who calls it is not answered."))
            return
        factory.tune(connection)
        steps = call(factory.identity, self._called, self._lane)
        self._handshake = HandshakeDriver(factory.loop, connection, steps, self._finish_handshake, self._fail_handshake)
        self._handshake.begin()

    def _finish_handshake(self, connection: socket.socket, session: Session) -> None:
        self._handshake = None
        self._stop_dialling()
        link = self.link = self._factory.link(connection, session)
        link.on_close = lambda _, why: self._end(why)
        self.on_open(link)

    def _fail_handshake(self, why: Exception | None) -> None:
        assert self._handshake is not None
        self._proofs += self._handshake.turns >= _GREETED
        self._handshake = None
        if isinstance(why, WireError):
            self._factory.tally.rejected += 1
            self._end(why)
        elif self._proofs >= _PROOFS or self._late:
            self._end(self._refused())
        else:
            self._factory.loop.after(self._wait, self.dial)
            self._wait = min(2 * self._wait, _LONGEST_SECONDS)

    def _refused(self) -> WireError:
        mine = self._factory.identity.name
        return WireError(
            f"The process at the address of {self._called} does not take a connection of {mine}: it was started with another secret, or it "
            f"expects nobody called {mine}. Start all processes with the same POLYRHYTHM_SECRET and the same job."
        )

    def _end(self, why: Exception | None) -> None:
        self._stop_dialling()
        if not self._over:
            self._over = True
            self.on_over(why)


def _ignore_open(link: FrameLink) -> None:
    return None


def _ignore_over(why: Exception | None) -> None:
    return None
