"""The bytes under way: what starts, what ends, and what is delivered when."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush

from polyrhythm.core.simulator.connection import Connection, SharedLink
from polyrhythm.core.simulator.filling import TOLERANCE
from polyrhythm.core.simulator.routes import Routes
from polyrhythm.core.simulator.sharing import FEW, Sharing

Arrival = Callable[[Connection, float], float]
"""The time at which a message arrives whose last byte leaves a connection at a time; called once for each, in order."""


class Traffic:
    """What flows on connections, in the rates of its `sharing`; `time` only moves forward.

    `fell_silent` are the ways, as (sender, receiver) or (sender, ""), on which nothing was left to send; the reader empties it. `idle` are
    the connections on which that was so in the last `run`. Without an `arrival` messages come one latency after their last byte has left.
    """

    __slots__ = ("_arrival", "_delivered", "_deliveries", "_sharing", "fell_silent", "idle", "time")

    def __init__(self, routes: Routes, few: int = FEW, arrival: Arrival | None = None) -> None:
        self.time = 0.0
        self.fell_silent: list[tuple[str, str]] = []
        self.idle: list[Connection] = []
        self._sharing = Sharing(routes, few)
        self._arrival = arrival
        self._deliveries: list[tuple[float, int, int, object]] = []
        self._delivered = 0

    def start(self, connection: Connection, nbytes: int, token: object) -> bool:
        """Send `nbytes` behind what is on `connection`. True if they begin to flow now: it was idle, and nothing stops it."""
        if connection.busy:
            if connection.waiting is None:
                connection.waiting = deque()
            connection.waiting.append((nbytes, token))
            return False
        connection.busy = True
        connection.sender.sending += 1
        connection.token = token
        connection.remaining = nbytes
        if connection.cuts:
            return False
        self._sharing.begin(connection)
        return True

    def hold(self, connection: Connection) -> None:
        """Let `connection` flow or stand still, whose cuts have changed."""
        if connection.attached and connection.cuts:
            self._sharing.detach(connection, self.time)
        elif connection.busy and not connection.attached and not connection.cuts:
            self._sharing.begin(connection)

    def resize(self, link: SharedLink) -> None:
        """The capacity of `link` has changed, and with it what its flows could have alone."""
        self._sharing.resize(link)

    def next_time(self) -> float:
        """The time at which something is due next, a delivery or a last byte leaving; math.inf if nothing is under way."""
        if self._sharing.changed:
            self._sharing.solve(self.time)
        end = self._sharing.next_end()
        return self._deliveries[0][0] if self._deliveries and self._deliveries[0][0] < end else end

    def run(self, now: float, look: float) -> bool:
        """Let everything end that ends until `now`, in batches of one instant; True where it stops before `look`, which is earlier.

        Raises ValueError if time would go back.
        """
        self.idle.clear()
        sharing = self._sharing
        if sharing.changed:
            sharing.solve(self.time)
        while True:
            end = sharing.first_end()
            if look <= now and look < end:
                self.time = max(look, self.time)
                return True
            if end > now:
                break
            instant = max(end, self.time)  # rounding may put an end a hair before the change that moved it
            ended = sharing.take_ended(instant * (1 + TOLERANCE))
            if ended:
                self.time = instant
                for connection in ended:
                    self._finish(connection)
                if sharing.changed:
                    sharing.solve(instant)
        if now < self.time:
            raise ValueError(f"time went back from {self.time} to {now}")
        self.time = now
        return False

    def take(self) -> list[object]:
        """The tokens of what was delivered until `time`, by time, then by the actors' names, then as sent."""
        deliveries, tokens = self._deliveries, []
        while deliveries and deliveries[0][0] <= self.time:
            tokens.append(heappop(deliveries)[3])
        return tokens

    def lose(self, connection: Connection) -> list[object]:
        """Drop all that has not wholly left on `connection`; the tokens of what is lost."""
        if connection.attached:
            self._sharing.detach(connection, self.time)
        if not connection.busy:
            return []
        lost = [connection.token, *(token for _, token in connection.waiting or ())]
        self._fall_silent(connection)
        return lost

    def _finish(self, connection: Connection) -> None:
        now = self.time
        self._delivered += 1
        arrives = now + connection.latency if self._arrival is None else self._arrival(connection, now)
        heappush(self._deliveries, (arrives, connection.key, self._delivered, connection.token))
        if connection.waiting:
            nbytes, connection.token = connection.waiting.popleft()
            self._sharing.restart(connection, nbytes, now)
            return
        self._fall_silent(connection)
        self._sharing.detach(connection, now)
        self.idle.append(connection)

    def _fall_silent(self, connection: Connection) -> None:
        connection.busy = False
        connection.token = None
        sender = connection.sender
        sender.sending -= 1
        if connection.watched:
            connection.watched = False
            self.fell_silent.append((sender.name, connection.receiver.name))
        if sender.watched and not sender.sending:
            sender.watched = False
            self.fell_silent.append((sender.name, ""))
