"""The connections of one actor with the others of its run.

Each actor opens a connection to whom it sends, when it first does; so there is at most one for each direction, messages
between two actors keep their order, and nobody has to decide which of two calls that crossed is the one to keep.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterable
from typing import Protocol

from polyrhythm.errors import RunError, WireError
from polyrhythm.kernel.message import Delivery, Message, wire_bytes
from polyrhythm.processes.addresses import Address, Listeners, open_socket, tune
from polyrhythm.processes.handshake import STRANGER, Caller, Identity, Listener
from polyrhythm.processes.links import Link, Wiring
from polyrhythm.processes.loop import READ, WRITE, Callback, Loop
from polyrhythm.processes.outbound import Outbound
from polyrhythm.processes.wire import CONTROL, Frame, Limits, Tally

_STRANGER_SECONDS = 15.0
_CLOSED = Message("closed")


class Observer(Protocol):
    """Who is told of what comes."""

    def deliver(self, delivery: Delivery) -> None:
        """A message has come."""

    def part(self, name: str) -> None:
        """The actor `name` has ended well, and all that it sent here has come."""

    def break_off(self, name: str, why: Exception | None) -> None:
        """A connection with the actor `name` ended, and it had not said that it would."""


class Peers:
    """Sends to and receives from all other actors of a run, and counts what was sent as the wire would."""

    def __init__(self, loop: Loop, identity: Identity, wiring: Wiring, listeners: Listeners, observer: Observer) -> None:
        self.tally = Tally()
        self.bytes_sent = 0
        self.messages_sent = 0
        self.lost: set[str] = set()
        self._loop = loop
        self._identity = identity
        self._wiring = wiring
        self._listeners = listeners
        self._observer = observer
        self._table: dict[str, Address] = {}
        self._outbound: dict[str, Outbound] = {}
        self._inbound: dict[str, Link] = {}
        self._strangers: set[Link] = set()
        self._closed = False
        for listener in listeners.sockets:
            listener.setblocking(False)
            loop.watch(listener, READ, lambda _, it=listener: self._accept(it))  # type: ignore[misc]

    @property
    def moved(self) -> int:
        """A number that grows whenever bytes come or go."""
        links = [outbound.link for outbound in self._outbound.values() if outbound.link is not None]
        return sum(link.moved for link in [*links, *self._inbound.values()]) + self.messages_sent

    @property
    def address(self) -> Address:
        """Where others reach this actor."""
        return self._listeners.address

    def know(self, table: dict[str, Address]) -> None:
        """Learn where everyone is."""
        self._table = table

    def connect(self, names: Iterable[str]) -> None:
        """Open connections now, without waiting for the first message."""
        for name in names:
            self._reach(name)

    def connected(self, names: Iterable[str]) -> bool:
        """Whether there are proved connections with all of `names`, both ways."""
        return all(name in self._inbound and name in self._outbound and self._outbound[name].ready for name in names)

    def restrict(self, name: str, limits: Limits) -> None:
        """Believe the actor `name` up to these limits only from now on."""
        self._inbound[name].restrict(limits)

    def send(self, to: str, message: Message) -> None:
        """Send `message`, and count it; to an actor that was lost, do nothing."""
        if to in self.lost:
            return
        self.bytes_sent += wire_bytes(message)
        self.messages_sent += 1
        if to == self._identity.name:
            self._observer.deliver(Delivery(to, message))
        else:
            self._reach(to).send(message)

    def charge(self, nbytes: int, messages: int) -> None:
        """Count what would have been sent, had it not gone another way."""
        self.bytes_sent += nbytes
        self.messages_sent += messages

    def when_drained(self, call: Callback) -> None:
        """Make `call` when all that was sent so far has gone to the system."""
        self._after_all(Outbound.when_drained, call)

    def farewell(self, done: Callback) -> None:
        """Tell everyone this actor has sent to that nothing more will come; `done` when they have taken everything in."""
        self._after_all(Outbound.close, done)

    def lose(self, name: str) -> None:
        """Have done with an actor that is no more: nothing is sent to it from now on."""
        self.lost.add(name)
        if name in self._outbound:
            outbound = self._outbound[name]
            if outbound.link is not None:
                outbound.link.close()
            outbound.end()

    def close(self) -> None:
        """Give all sockets back."""
        self._closed = True
        for listener in self._listeners.sockets:
            self._loop.forget(listener)
            listener.close()
        links = [outbound.link for outbound in self._outbound.values() if outbound.link is not None]
        for link in [*links, *self._inbound.values(), *self._strangers]:
            link.close()

    def _after_all(self, what: Callable[[Outbound, Callback], None], call: Callback) -> None:
        left = len(self._outbound)

        def one_less() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                call()

        if not left:
            call()
        for outbound in list(self._outbound.values()):
            what(outbound, one_less)

    # Outbound: who calls

    def _reach(self, name: str) -> Outbound:
        if name not in self._outbound:
            if name not in self._table:
                raise RunError(f"{self._identity.name} sends to {name!r}; in this run there are {', '.join(self._table)}.")
            self._outbound[name] = Outbound(name)
            self._dial(self._outbound[name])
        return self._outbound[name]

    def _dial(self, outbound: Outbound) -> None:
        if outbound.over or self._closed:
            return
        mine = self._table[self._identity.name].host
        connection, target = open_socket(self._table[outbound.name], mine)
        code = connection.connect_ex(target)
        if code == 0:
            self._greet(outbound, connection)
        elif code == errno.EINPROGRESS:
            self._loop.watch(connection, WRITE, lambda _: self._dialled(outbound, connection))
        elif code == errno.EAGAIN:  # a local listener whose queue is full
            connection.close()
            self._loop.after(0.01, lambda: self._dial(outbound))
        else:
            connection.close()
            self._fail(outbound, OSError(code, os.strerror(code)))

    def _dialled(self, outbound: Outbound, connection: socket.socket) -> None:
        self._loop.forget(connection)
        code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code or outbound.over or self._closed:
            connection.close()
            self._fail(outbound, OSError(code, os.strerror(code)))
        else:
            self._greet(outbound, connection)

    def _greet(self, outbound: Outbound, connection: socket.socket) -> None:
        tune(connection, self._wiring.patience)
        caller = Caller(self._identity, outbound.name)
        link = outbound.link = Link(self._loop, connection, self._wiring, self.tally)
        link.restrict(STRANGER)
        link.on_frame = lambda it, frame: self._answered(outbound, caller, it, frame)
        link.on_close = lambda _, why: self._fail(outbound, why)
        link.control(caller.hello())

    def _answered(self, outbound: Outbound, caller: Caller, link: Link, frame: Frame) -> None:
        if outbound.ready:
            if frame.flags & CONTROL and frame.message.topic == "closed":
                outbound.end()
            return
        try:
            proof = caller.answer(frame)
        except WireError as problem:
            self.tally.rejected += 1
            link.close(problem)
            return
        link.control(proof)
        link.restrict(self._wiring.limits)
        outbound.open(link)

    def _fail(self, outbound: Outbound, why: Exception | None) -> None:
        already_over = outbound.over
        outbound.end()
        if not already_over and not self._closed:
            self._observer.break_off(outbound.name, why)

    # Inbound: who is called

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        tune(connection, self._wiring.patience)
        link = Link(self._loop, connection, self._wiring, self.tally)
        link.restrict(STRANGER)
        ours = Listener(self._identity)
        self._strangers.add(link)
        link.on_frame = lambda it, frame: self._hear(ours, it, frame)
        link.on_close = lambda it, _: self._strangers.discard(it)
        self._loop.after(_STRANGER_SECONDS, lambda: self._dismiss(link))

    def _dismiss(self, link: Link) -> None:
        if link in self._strangers:
            self.tally.rejected += 1
            link.close(WireError("A caller did not prove itself in time."))

    def _hear(self, ours: Listener, link: Link, frame: Frame) -> None:
        try:
            name, reply = ours.hear(frame)
            if name in self._inbound:
                raise WireError(f"{name} called twice.")
        except WireError as problem:
            self.tally.rejected += 1
            link.close(problem)
            return
        if reply is not None:
            link.control(reply)
        else:
            self._welcome(name, link)

    def _welcome(self, name: str, link: Link) -> None:
        self._strangers.discard(link)
        self._inbound[name] = link
        link.restrict(self._wiring.limits)
        link.on_frame = lambda it, frame: self._take(name, it, frame)
        link.on_close = lambda _, why: None if self._closed else self._observer.break_off(name, why)

    def _take(self, name: str, link: Link, frame: Frame) -> None:
        if not frame.flags & CONTROL:
            self._observer.deliver(Delivery(name, frame.message))
        elif frame.message.topic == "closing":
            link.control(_CLOSED)
            self._observer.part(name)
