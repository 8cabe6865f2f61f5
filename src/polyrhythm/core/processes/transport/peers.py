"""The connections of one actor with the others of its run.

Each actor opens a connection to whom it sends, when it first does; so there is at most one for each direction, messages
between two actors keep their order, and no choice is needed between two connections opened at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from polyrhythm.core.kernel.events import Carried
from polyrhythm.core.kernel.message import ASIDE, Delivery, Message, wire_bytes
from polyrhythm.core.processes.transport.addresses import Address, Listeners
from polyrhythm.core.processes.transport.connector import ConnectionFactory
from polyrhythm.core.processes.transport.datagrams import TOPICS, DatagramPeer, Datagrams
from polyrhythm.core.processes.transport.frame_link import FrameLink, Wiring
from polyrhythm.core.processes.transport.handshake import Credentials
from polyrhythm.core.processes.transport.inbound import Inbound
from polyrhythm.core.processes.transport.loop import Callback, EventLoop
from polyrhythm.core.processes.transport.outbound import Outbound
from polyrhythm.core.processes.transport.reception import Reception
from polyrhythm.core.processes.transport.wire import CONTROL, Frame, Limits, Tally
from polyrhythm.errors import RunError

_CLOSED = Message("closed")
_MOST_CARRIED = 64
"""Connections of an actor whose counts are recorded."""


class Observer(Protocol):
    """An observer that is notified of messages from others, of their ends, and of lost connections."""

    def deliver(self, delivery: Delivery) -> None:
        """A message has come."""

    def peer_ended(self, name: str) -> None:
        """The actor `name` has ended well, and all that it sent here has come."""

    def receive_control(self, name: str, message: Message) -> None:
        """The runtime of the actor `name` has sent something to this one."""

    def connection_lost(self, name: str, why: Exception | None) -> None:
        """A connection with the actor `name` ended, and it had not announced its end."""


class Peers:
    """Sends to and receives from all other actors of a run, and counts what was sent as the wire would."""

    def __init__(self, loop: EventLoop, identity: Credentials, wiring: Wiring, listeners: Listeners, observer: Observer) -> None:
        self.tally = Tally()
        self.bytes_sent = 0
        self.messages_sent = 0
        self.lost: set[str] = set()
        self._factory = ConnectionFactory(loop, identity, wiring, self.tally)
        self._listeners = listeners
        self._observer = observer
        self._outbound: dict[str, Outbound] = {}
        self._inbound: dict[str, Inbound] = {}
        peer = DatagramPeer(listeners.address, lambda name: self._factory.table[name], self._send_first_control, self._deliver)
        self._datagrams = Datagrams(loop, peer, wiring.limits)
        self._closed = False
        self._reception: Reception | None = None

    @property
    def moved(self) -> int:
        """A number that grows whenever bytes come or go."""
        connections: list[Outbound | Inbound] = [*self._outbound.values(), *self._inbound.values()]
        return sum(connection.moved for connection in connections) + self.messages_sent + self._datagrams.received

    @property
    def reached(self) -> list[str]:
        """The actors to whom a connection was opened."""
        return list(self._outbound)

    @property
    def address(self) -> Address:
        """The address at which others reach this actor."""
        return self._listeners.address

    def lanes(self, name: str) -> int:
        """The number of lanes to the actor `name`, in addition to the connection."""
        return self._outbound[name].lanes if name in self._outbound else 0

    def set_addresses(self, table: dict[str, Address]) -> None:
        """Learn the addresses of all, and take their calls from now on: before, nobody can be distinguished from a stranger."""
        self._factory.table = table
        if self._reception is None:
            self._reception = Reception(self._factory, self._listeners.sockets, self._admit, self._expects)

    def connect(self, names: Iterable[str]) -> None:
        """Open connections now, without waiting for the first message."""
        for name in names:
            self._reach(name)

    def connected(self, names: Iterable[str]) -> bool:
        """True if there are proved connections with all of `names`, both ways."""
        both = [(self._inbound.get(name), self._outbound.get(name)) for name in names]
        return all(come is not None and come.connected and gone is not None and gone.ready for come, gone in both)

    def restrict(self, name: str, limits: Limits) -> None:
        """Believe the actor `name` up to these limits only from now on."""
        self._inbound[name].restrict(limits)

    def send(self, to: str, message: Message) -> None:
        """Send `message`, and count it; to an actor that was lost, do nothing."""
        if to in self.lost:
            return
        if message.topic[:1] != ASIDE:
            self.count(wire_bytes(message), 1)
        if to == self._factory.identity.name:
            self._observer.deliver(Delivery(to, message))
        else:
            self._reach(to).send(message)

    def send_datagram(self, to: str, message: Message) -> None:
        """Send `message` once, as a datagram, and count it; to an actor that was lost, do nothing."""
        if to in self.lost:
            return
        self.count(wire_bytes(message), 1)
        if to == self._factory.identity.name:
            self._observer.deliver(Delivery(to, message))
        else:
            self._datagrams.send(to, message)

    def send_control(self, name: str, message: Message) -> None:
        """Send something to the runtime of the actor `name`, if there is a connection with it; that is no traffic, and not counted."""
        if name in self._outbound:
            self._outbound[name].send_control(message)

    def count(self, nbytes: int, messages: int) -> None:
        """Count what is sent, or would have been had it not gone another way; from any thread."""
        # no call stands between reading a count and writing it, so that no thread comes between them
        self.bytes_sent += nbytes
        self.messages_sent += messages

    def when_drained(self, call: Callback, to: str = "") -> None:
        """Make `call` when all that was sent so far, `to` one actor if given, has gone to the system."""
        if not to:
            self._after_all(Outbound.when_drained, call)
        elif to in self._outbound:
            self._outbound[to].when_drained(call)
        else:
            call()

    def rate(self, to: str = "") -> float | None:
        """Bytes per second that connections have delivered lately, the one `to` an actor if given; None where the system does not say.

        Of all of them, what they deliver while each is sent the same: the slowest is what is waited for.
        """
        chosen = [self._outbound[to]] if to in self._outbound else [] if to else list(self._outbound.values())
        known = [rate for outbound in chosen if (rate := outbound.rate) is not None]
        return len(known) * min(known) if known else None

    def carried(self, now: float) -> list[Carried]:
        """The traffic of each connection to another actor; none of these where they are very many."""
        if len(self._outbound) > _MOST_CARRIED:
            return []
        name = self._factory.identity.name
        return [outbound.carried(now, name) for _, outbound in sorted(self._outbound.items())]

    def announce_end(self, done: Callback) -> None:
        """Announce to everyone this actor has sent to that nothing more will come; `done` when they have received everything."""
        self._after_all(Outbound.close, done)

    def lose(self, name: str) -> None:
        """Have done with an actor that is no more: nothing is sent to it from now on."""
        self.lost.add(name)
        if name in self._outbound:
            self._outbound[name].abort()

    def close(self) -> None:
        """Give all sockets back."""
        self._closed = True
        self._datagrams.close()
        if self._reception is not None:
            self._reception.close()
        for listener in self._listeners.sockets:
            listener.close()
        for outbound in self._outbound.values():
            outbound.abort()
        for inbound in self._inbound.values():
            inbound.close()

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

    # Outbound

    def _send_first_control(self, name: str, message: Message) -> None:
        """Send something to the runtime of the actor `name`, over a connection that may have to be opened first."""
        outbound = self._reach(name)
        outbound.when_drained(lambda: outbound.send_control(message))

    def _reach(self, name: str) -> Outbound:
        if name not in self._outbound:
            if name not in self._factory.table:
                raise RunError(f"{self._factory.identity.name} sends to {name!r}; in this run there are {', '.join(self._factory.table)}.")
            self._outbound[name] = Outbound(self._factory, name, lambda why: self._connection_lost(name, why))
            self._outbound[name].dial()
        return self._outbound[name]

    def _connection_lost(self, name: str, why: Exception | None) -> None:
        if not self._closed:
            self._observer.connection_lost(name, why)

    # Inbound

    def _expects(self, name: str) -> bool:
        return name in self._factory.table and name != self._factory.identity.name

    def _admit(self, name: str, lane: int, link: FrameLink) -> None:
        self._of(name).join(lane, link)

    def _of(self, name: str) -> Inbound:
        if name not in self._inbound:
            self._inbound[name] = Inbound(
                self._factory.wiring.limits,
                self.tally,
                lambda link, frame: self._take(name, link, frame),
                lambda why: self._connection_lost(name, why),
            )
        return self._inbound[name]

    def _take(self, name: str, link: FrameLink, frame: Frame) -> None:
        if not frame.flags & CONTROL:
            self._observer.deliver(Delivery(name, frame.message))
        elif frame.message.topic == "closing":
            link.send_control(_CLOSED)
            self._observer.peer_ended(name)
        elif frame.message.topic in TOPICS:
            self._datagrams.control(name, frame.message)
        else:
            self._observer.receive_control(name, frame.message)

    def _deliver(self, sender: str, message: Message) -> None:
        if not self._closed:
            self._observer.deliver(Delivery(sender, message))
