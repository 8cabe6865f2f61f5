"""Where processes call that want to join a run under way, in a separate thread: only callers that have its secret are heard.

The first member of a run whose crew may change has a `Door`; a caller uses a `StoreClient`, sets "call" and gets "answer".
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.processes.runtime import failure
from polyrhythm.core.processes.store.dialogue import STORE, WIRING, is_worker, message, numbers_of, payload_of
from polyrhythm.core.processes.transport.addresses import listen_on
from polyrhythm.core.processes.transport.connector import ConnectionFactory
from polyrhythm.core.processes.transport.frame_link import FrameLink
from polyrhythm.core.processes.transport.handshake import Credentials
from polyrhythm.core.processes.transport.loop import EventLoop
from polyrhythm.core.processes.transport.reception import Reception
from polyrhythm.core.processes.transport.wire import Frame, Tally
from polyrhythm.errors import PolyrhythmError, WireError

_LAST_SECONDS = 2.0


class DoorCaller:
    """A process that has called: `call` is what it has said. It is answered once, from any thread."""

    def __init__(self, loop: EventLoop, link: FrameLink) -> None:
        self.call = b""
        self.gone = False
        self._loop = loop
        self._link = link
        self._number = 0

    def answer(self, value: bytes) -> None:
        """Give it what it waits for."""
        self._reply(lambda number: message("reply", numbers=(number,), payload=msgspec.msgpack.encode([value])))

    def refuse(self, error: PolyrhythmError) -> None:
        """Have it raise `error`."""
        self._reply(lambda number: Message("failed", (number,), tensors=failure.failure_message(STORE, error).tensors))

    def takes(self, given: Message) -> bool:
        """True if it has said all, with this frame, and waits; in the door's thread."""
        match given.topic:
            case "set":
                self.call = payload_of(given)
            case "get":
                (self._number,) = numbers_of(given, 1)
            case "done" | "failed":
                self.gone = True
            case _:
                raise WireError(f"A process that wants to join sent {given.topic[:16]!r}.")
        return given.topic == "get"

    def _reply(self, reply: Callable[[int], Message]) -> None:
        self._loop.call(lambda: None if self._link.closed else self._link.send_control(reply(self._number)))


class Door:
    """A door at `ip` and `port` for callers with `secret`; `on_call` gets each one in the door's thread, when it waits for an answer.

    Raises OSError where the address cannot be listened at.
    """

    def __init__(self, ip: str, port: int, secret: bytes, on_call: Callable[[DoorCaller], None]) -> None:
        listener = listen_on(ip, port)
        self.on_call = on_call
        self.address: tuple[str, int] = (ip, listener.getsockname()[1])
        self._loop = EventLoop()
        self._links: list[FrameLink] = []
        factory = ConnectionFactory(self._loop, Credentials(STORE, secret), WIRING, Tally())
        self._reception = Reception(factory, [listener], self._admit, is_worker)
        self._thread = threading.Thread(target=self._loop.run, name="polyrhythm-door", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Give everything back, when the last answers are on their way."""
        drained = threading.Event()
        self._loop.call(lambda: self._drain(drained.set))
        drained.wait(_LAST_SECONDS)
        self._loop.call(self._loop.stop)
        self._thread.join()
        for link in self._links:
            link.close()
        self._loop.close()

    def _drain(self, done: Callable[[], None]) -> None:
        self._reception.close()
        left = [link for link in self._links if not link.closed]

        def one_less(link: FrameLink) -> None:
            left.remove(link)
            if not left:
                done()

        for link in list(left):
            link.when_drained(lambda it=link: one_less(it))  # type: ignore[misc]
        if not left:
            done()

    def _admit(self, name: str, lane: int, link: FrameLink) -> None:
        if lane:
            raise WireError(f"A process that wants to join opened lane {lane}.")
        caller = DoorCaller(self._loop, link)
        self._links = [each for each in self._links if not each.closed] + [link]

        def take(it: FrameLink, frame: Frame) -> None:
            try:
                if caller.takes(frame.message):
                    self.on_call(caller)
            except WireError as problem:
                it.close(problem)

        def close(it: FrameLink, why: Exception | None) -> None:
            caller.gone = True

        link.on_frame, link.on_close = take, close
        link.send_control(message("welcome"))
