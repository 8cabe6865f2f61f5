"""One actor's connection to another, from before it is open until all that was sent has been taken in."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from polyrhythm.core.kernel.events import Carried
from polyrhythm.core.kernel.message import ASIDE, Message, wire_bytes
from polyrhythm.core.processes.transport.connector import ConnectionFactory, Connector
from polyrhythm.core.processes.transport.frame_link import FrameLink
from polyrhythm.core.processes.transport.lanes import Lanes
from polyrhythm.core.processes.transport.loop import Callback
from polyrhythm.core.processes.transport.path import PathEstimate
from polyrhythm.core.processes.transport.wire import CONTROL, Frame
from polyrhythm.errors import WireError

_CLOSING = Message("closing")


class Outbound:
    """The connection that this actor opened to `name`, or is opening, and its lanes: if one of them ends, all have.

    A lane that cannot be opened is done without, and no further one is tried.
    `on_over` is called once, with the reason if it was no orderly end.
    """

    def __init__(self, factory: ConnectionFactory, name: str, on_over: Callable[[Exception | None], None]) -> None:
        self.ready = False
        self._name = name
        self._factory = factory
        self._on_over = on_over
        self._over = False
        self._connectors: list[Connector] = []
        self._link: FrameLink | None = None
        self._lanes = Lanes(factory.wiring, self._open_lane)
        self._closing: Callback | None = None
        self._backlog: deque[Message] = deque()
        self._after_backlog: list[Callback] = []
        self._closed_paths: list[PathEstimate] = []
        self._nbytes = 0
        self._messages = 0

    @property
    def moved(self) -> int:
        """Bytes sent and received over all of the connections, except the runtime's own frames."""
        return sum(connector.link.carried for connector in self._connectors if connector.link is not None)

    @property
    def lanes(self) -> int:
        """The number of lanes that are open."""
        return len(self._lanes.links)

    @property
    def rate(self) -> float | None:
        """Bytes per second that its connections have delivered lately; None where the system does not say."""
        paths = self._paths()
        return sum(path.rate for path in paths) if paths else None

    def carried(self, now: float, sender: str) -> Carried:
        """The traffic of the connection until now, or until it was closed."""
        paths = self._paths() or self._closed_paths
        busy, latency = max((path.busy for path in paths), default=0.0), min((path.round_trip / 2 for path in paths), default=0.0)
        resent = sum(path.resent for path in paths)
        return Carried(now, sender, self._name, self._nbytes, self._messages, busy, latency, resent)

    def _paths(self) -> list[PathEstimate]:
        links = self._lanes.links or ([] if self._link is None else [self._link])
        return [path for link in links if (path := link.path()) is not None]

    def dial(self) -> None:
        """Begin to open it."""
        connector = self._connector(0)
        connector.on_open, connector.on_over = self._open, self._fail
        connector.dial()

    def send(self, message: Message) -> None:
        """Send in the background; once connected, if that is not yet so."""
        if self._over:
            return
        if message.topic[:1] != ASIDE:
            self._nbytes += wire_bytes(message)
            self._messages += 1
        if not self.ready or self._link is None:
            self._backlog.append(message)
        elif not self._lanes.send(message, self._link):
            self._link.send(message)

    def send_control(self, message: Message) -> None:
        """Send a frame of the runtime's own, after all that was sent before, also after `close`; nothing while there is no connection."""
        if self.ready and self._link is not None:
            self._link.send_control(message)

    def when_drained(self, call: Callback) -> None:
        """Make `call` when all has gone to the system, or the connection is over."""
        link = self._link
        if self._over and link is not None:
            link.when_drained(call)  # the runtime may still have something to send
        elif self._over:
            call()
        elif self.ready and link is not None:
            self._lanes.when_idle(lambda: link.when_drained(call))
        else:
            self._after_backlog.append(lambda: self.when_drained(call))

    def close(self, done: Callback) -> None:
        """Announce that nothing more will come; `done` is called when the other has received everything, or is no more."""
        self._closing, self._closed_paths = done, self._paths()
        if self._over:
            self._finish()
        elif self.ready and self._link is not None:
            self._link.send_control(_CLOSING)

    def abort(self) -> None:
        """End at once and give all sockets back, notifying only those who wait."""
        self._end()
        for connector in self._connectors:
            connector.abort()

    def _connector(self, lane: int) -> Connector:
        connector = Connector(self._factory, self._name, lane)
        self._connectors.append(connector)
        return connector

    def _open_lane(self, number: int) -> None:
        connector = self._connector(number)
        connector.on_open = lambda link: self._join(connector, link)
        connector.on_over = lambda _: self._lanes.suffice()
        try:
            connector.dial()
        except OSError:  # no descriptor is left, for example: no matter of who just sends a message
            self._lanes.suffice()

    def _join(self, connector: Connector, link: FrameLink) -> None:
        connector.on_over = self._fail  # from now on stripes lie in it that would be missed
        link.on_frame = self._refuse
        self._lanes.join(link)

    def _open(self, link: FrameLink) -> None:
        """The peer is authenticated: send what has waited."""
        self._link = link
        link.on_frame = self._receive
        link.share()
        self.ready = True
        while self._backlog:
            self.send(self._backlog.popleft())
        if self._closing is not None:
            link.send_control(_CLOSING)
        self._run_waiting()

    def _receive(self, link: FrameLink, frame: Frame) -> None:
        if frame.flags & CONTROL and frame.message.topic == "closed":
            self._end()

    def _refuse(self, link: FrameLink, frame: Frame) -> None:
        self._factory.tally.rejected += 1
        link.close(WireError("Something came back over a lane, which goes one way."))

    def _fail(self, why: Exception | None) -> None:
        if not self._over:
            self.abort()
            self._on_over(why)

    def _end(self) -> None:
        """The connection is over, in one way or another."""
        if not self._over:
            self._over = True
            self._backlog.clear()
            self._lanes.end()
            self._run_waiting()
            self._finish()

    def _finish(self) -> None:
        done, self._closing = self._closing, None
        if done is not None:
            done()

    def _run_waiting(self) -> None:
        calls, self._after_backlog = self._after_backlog, []
        for call in calls:
            call()
