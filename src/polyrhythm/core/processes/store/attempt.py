"""One attempt to be received by a store."""

from __future__ import annotations

from dataclasses import dataclass, field

from polyrhythm.core.processes.runtime.completion import Completion
from polyrhythm.core.processes.store.dialogue import PUBLIC, STORE, WIRING
from polyrhythm.core.processes.store.dismissals import Absent, Busy, Dismissed, GivenUp, Silent, Unexpected, Unproven
from polyrhythm.core.processes.transport.addresses import Address
from polyrhythm.core.processes.transport.connector import ConnectionFactory, Connector
from polyrhythm.core.processes.transport.frame_link import FrameLink
from polyrhythm.core.processes.transport.handshake import Credentials
from polyrhythm.core.processes.transport.loop import EventLoop
from polyrhythm.core.processes.transport.wire import Frame, Tally
from polyrhythm.errors import WireError

_DISMISSALS = {"again": Busy, "refused": Unexpected, "over": GivenUp}


@dataclass(frozen=True, slots=True)
class StoreTarget:
    """The address of a store, by IP address and port, and the key that its callers need."""

    ip: str
    port: int
    key: bytes = field(default=PUBLIC, repr=False)


class StoreAttempt:
    """An attempt to connect as the worker `name` with the store at `target` within `seconds`, in the running `loop`."""

    def __init__(self, loop: EventLoop, name: str, target: StoreTarget, seconds: float) -> None:
        credentials = Credentials(name, target.key)
        table = {name: Address("client", ""), STORE: Address("store", "", target.ip, target.port)}
        self._loop = loop
        self._completion = Completion()
        self._open = False
        self._over = False
        self._connector = Connector(ConnectionFactory(loop, credentials, WIRING, Tally(), table), STORE)
        self._connector.on_open = self._opened
        self._connector.on_over = self._failed
        loop.call(lambda: self._begin(seconds))

    def wait(self) -> FrameLink:
        """The connection, over which the store has welcomed this worker. Raises Dismissed where it does not come to that."""
        link: FrameLink = self._completion.wait()
        return link

    def _begin(self, seconds: float) -> None:
        self._loop.after(seconds, lambda: self._end(None, Silent(f"no store has answered there within {seconds:g} seconds")))
        try:
            self._connector.dial()
        except OSError as problem:
            self._failed(problem)

    def _opened(self, link: FrameLink) -> None:
        self._open = True
        link.on_frame = self._answered

    def _answered(self, link: FrameLink, frame: Frame) -> None:
        topic = frame.message.topic
        if topic == "welcome":
            self._end(link, None)
        elif topic in _DISMISSALS:
            self._end(None, _DISMISSALS[topic](frame.message.text))
        else:
            link.close(WireError("a store sent something else than a welcome"))

    def _failed(self, why: Exception | None) -> None:
        if isinstance(why, OSError) and self._connector.link is None:
            self._end(None, Absent(f"nobody listens there ({why.strerror or why})"))
        elif self._open:
            self._end(None, Busy(f"it closed the connection{f' ({why})' if why else ''}"))
        else:
            self._end(None, Unproven(str(why) if isinstance(why, WireError) else "it closed the connection at the handshake"))

    def _end(self, link: FrameLink | None, problem: Dismissed | None) -> None:
        if self._over:
            return
        self._over = True
        if link is None:
            self._connector.abort()
        self._completion.finish(link, problem)
