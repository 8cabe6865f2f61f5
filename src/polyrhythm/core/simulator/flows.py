"""Messages that share the links of a network fairly, in virtual time.

The rules. Messages from one actor to another go one after the other on one connection, so they arrive in the order sent.
Different connections flow at the same time, at max-min fair rates over the links on their paths: egress of the sending
host, uplink of its site, capacity from site to site, downlink, ingress of the receiving host. A shared medium is a link
too, of both directions, which a message inside its site takes twice. A message is delivered one latency after its last
byte has left, give or take the jitter, and never before one that was sent earlier on its connection.
Inside one host nothing is shared: the network's `Local` time is all.

The cost. A flow alone on its links costs a few operations; a start or an end looks only at the flows whose links it
touches, directly or through others; many such flows become a `FlowGroup`, in arrays. All that starts or ends at
one instant is taken together, in an order of the actors' names, so the order of the calls changes nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable

from polyrhythm.core.simulator.connection import REMEMBERED, Connection, is_between
from polyrhythm.core.simulator.delays import Delays
from polyrhythm.core.simulator.pauses import Pauses
from polyrhythm.core.simulator.routes import Routes
from polyrhythm.core.simulator.sharing import key_of
from polyrhythm.core.simulator.sharing_parts import BEST, SharingParts
from polyrhythm.hardware.network import Network
from polyrhythm.hardware.timetable import LinkKey


class Flows:
    """All messages under way on `network` among `workers` workers and any servers; time only moves forward.

    A driver calls `next_time`, moves its clock there, calls `advance`, and `start`s what follows at that instant. `seed` draws when
    connections pause, if the network's congestion control has them do so, and how latencies vary, if they do.
    """

    def __init__(self, network: Network, workers: int, seed: int = 0, parts: SharingParts = BEST) -> None:
        self._routes = Routes(network, workers, parts.link, parts.connection, parts.alone)
        self.crosses, self.latency = self._routes.crosses, self._routes.latency
        self._pauses = Pauses(network.congestion, seed)
        self._pausing = network.congestion.every < math.inf
        self._traffic = parts.begin(self._routes, parts.few, Delays(network, seed).arrival if network.varies else None)
        self._connections: defaultdict[str, dict[str, Connection]] = defaultdict(dict)
        self._remembered = 0
        self._cuts: list[tuple[str, str]] = []
        self.fell_silent = self._traffic.fell_silent

    def start(self, now: float, sender: str, receiver: str, nbytes: int, token: object) -> None:
        """At `now` a message of `nbytes` joins the connection from `sender` to `receiver`."""
        if now != self._traffic.time:
            self._run(now)
        connection = self._connections[sender].get(receiver)
        if connection is None:
            connection = self._connect(sender, receiver)
        if self._traffic.start(connection, nbytes, token) and self._pausing:
            self._pauses.begin(connection, now)

    def next_time(self) -> float:
        """The time at which something is due next, a delivery or a last byte leaving; math.inf if nothing is under way."""
        due = self._traffic.next_time()
        return min(due, self._pauses.next_time()) if self._pausing else due

    def advance(self, now: float) -> list[object]:
        """Move to `now`; the tokens of what was delivered until then, by time, then by the actors' names, then as sent."""
        self._run(now)
        return self._traffic.take()

    def sending(self, actor: str, to: str = "") -> bool:
        """True while a byte that `actor` has to send, `to` another one if that is given, has not left it."""
        if not to:
            place = self._routes.endpoint(actor)
            place.watched = place.sending > 0
            return place.watched
        connection = self._connections.get(actor, {}).get(to)
        if connection is None or not connection.busy:
            return False
        connection.watched = True
        return True

    def block(self, now: float, a: str, b: str, blocked: bool) -> None:
        """Let no byte leave between `a` and `b` from `now` on, in both directions, or let them continue where they stopped.

        Each is an actor, "host/3" or "site/Tokyo". Bytes that have left arrive. Cuts add up: as many must be lifted.
        """
        self._run(now)
        if blocked:
            self._cuts.append((a, b))
        else:
            self._cuts.remove((a, b))
        for connection in self._each(lambda connection: is_between(connection, a, b)):
            self._hold(connection, 1 if blocked else -1)
            if self._pausing and connection.busy and not connection.cuts:
                self._pauses.begin(connection, now)

    def change(self, now: float, key: LinkKey, capacity: float) -> None:
        """Give a link `capacity` bytes per second from `now` on; its flows continue at the new rate."""
        self._run(now)
        link = self._routes.change(key, capacity)
        if link is None:
            return
        for connection in self._each(lambda connection: link in connection.links):
            connection.alone = self._routes.alone(connection.links)
        self._traffic.resize(link)

    def forget(self, now: float, actor: str) -> list[object]:
        """At `now`, drop all that `actor` has not wholly sent and all that is being sent to it; the tokens of what is lost."""
        self._run(now)
        lost: list[object] = []
        for connection in self._each(lambda connection: actor in (connection.sender.name, connection.receiver.name)):
            lost += self._traffic.lose(connection)
            self._drop(connection)
        return lost

    def _run(self, now: float) -> None:
        """Let everything end that ends until `now`; connections stop and resume at their pauses."""
        while self._traffic.run(now, look := self._pauses.next_time() if self._pausing else math.inf):
            self._forget_idle()
            while self._pauses.next_time() <= look:
                self._hold(*self._pauses.take())
        if self._remembered > REMEMBERED:
            self._forget_idle()

    def _forget_idle(self) -> None:
        for connection in self._traffic.idle[: max(0, self._remembered - REMEMBERED)]:
            self._drop(connection)

    def _hold(self, connection: Connection, more: int) -> None:
        """Change by `more` the number of faults and pauses that stop `connection`."""
        connection.cuts += more
        self._traffic.hold(connection)

    def _connect(self, sender: str, receiver: str) -> Connection:
        connection = self._routes.connect(sender, receiver)
        if self._cuts:
            connection.cuts = sum(is_between(connection, a, b) for a, b in self._cuts)
        self._connections[sender][receiver] = connection
        self._remembered += 1
        return connection

    def _drop(self, connection: Connection) -> None:
        del self._connections[connection.sender.name][connection.receiver.name]
        self._pauses.drop(connection)
        self._remembered -= 1

    def _each(self, wanted: Callable[[Connection], bool]) -> list[Connection]:
        found = [connection for row in self._connections.values() for connection in row.values() if wanted(connection)]
        return sorted(found, key=key_of)
