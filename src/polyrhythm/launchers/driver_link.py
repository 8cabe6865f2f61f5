"""A task's connection to its driver, in a separate thread."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

import msgspec

from polyrhythm.core.kernel.events import AnyEvent
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.stopping import notify
from polyrhythm.core.processes.runtime.completion import Completion
from polyrhythm.core.processes.transport.addresses import Address
from polyrhythm.core.processes.transport.connector import ConnectionFactory, Connector
from polyrhythm.core.processes.transport.frame_link import FrameLink, Wiring
from polyrhythm.core.processes.transport.handshake import Credentials
from polyrhythm.core.processes.transport.loop import EventLoop
from polyrhythm.core.processes.transport.wire import Frame, Tally, packed
from polyrhythm.errors import RunError
from polyrhythm.launchers.messages import Beginning
from polyrhythm.launchers.protocol import DRIVER, NO_DRIVER, TaskOrder

_REACHING_SECONDS = 60.0
_PAUSE_SECONDS = 0.2
_GATHERING_SECONDS = 0.05
_LAST_SECONDS = 5.0
_MOST_TEXT = 500_000
"""Characters in one message, which may hold some megabytes."""

Traffic = Callable[[], tuple[int, int]]


def exit_at_once() -> None:
    """End this process, whatever it is doing."""
    os._exit(NO_DRIVER)


class DriverLink:
    """The connection of the task `name`. If the driver is lost, `on_loss` is called, as nobody is left to take a result.

    Raises RunError if the driver cannot be reached.
    """

    def __init__(self, order: TaskOrder, name: str, on_loss: Callable[[], None] = exit_at_once) -> None:
        self._name = name
        self._order = order
        self._on_loss = on_loss
        self._attempts: SimpleQueue[Beginning | None] = SimpleQueue()
        self._events: deque[AnyEvent] = deque()
        self._gathering = False
        self._traffic: Traffic = lambda: (0, 0)
        self._work: Message | None = None
        self._encoder = msgspec.msgpack.Encoder()
        self._over = False
        self._door: tuple[str, int] | None = None
        self._vain = False
        self._deadline = time.monotonic() + _REACHING_SECONDS
        self._reached = Completion()
        self._loop = EventLoop()
        self._link: FrameLink | None = None
        table = {DRIVER: Address("", "", order.host, order.port), name: Address("another host", "")}
        self._factory = ConnectionFactory(self._loop, Credentials(name, bytes.fromhex(order.secret)), Wiring(), Tally(), table)
        self._loop.call(self._dial)
        self._thread = threading.Thread(target=self._loop.run, name="polyrhythm driver link", daemon=True)
        self._thread.start()
        try:
            self._reached.wait()
        except BaseException:
            self._end_loop()
            raise

    @property
    def packed(self) -> Message:
        """The message with the work, which comes before the first attempt."""
        assert self._work is not None
        return self._work

    def register(self) -> None:
        """Announce that this task is ready."""
        self.send(Message("registered"))

    def next_attempt(self) -> Beginning | None:
        """Wait for the next attempt at the run; None when the run is over."""
        return self._attempts.get()

    def door(self) -> tuple[str, int] | None:
        """The address at which the first member of a crew that changes has its door, if that is known.

        Raises RunError when the attempt is over.
        """
        if self._vain:
            raise RunError("The attempt is over: nobody is left who could admit this worker.")
        return self._door

    def follow(self, traffic: Traffic) -> None:
        """Have `traffic` say how many bytes and messages the worker has sent."""
        self._traffic = traffic

    def record(self, event: AnyEvent) -> None:
        """Send `event` to the driver, with others that come at about the same time; from any thread."""
        self._events.append(event)
        if not self._gathering:
            self._gathering = True
            self._loop.call(self._flush_soon)

    def print(self, stream: str, text: str) -> None:
        """Have the driver print `text`."""
        for start in range(0, len(text), _MOST_TEXT):
            self.send(Message("printed", text=f"{stream}\n{text[start : start + _MOST_TEXT]}"))

    def send(self, message: Message) -> None:
        """Send `message` behind all events of before; from any thread."""
        self._loop.call(lambda: self._send(message))

    def close(self) -> None:
        """End the connection when all has been sent."""
        sent = Completion()

        def end() -> None:
            self._over = True
            self._flush()
            self._loop.after(_LAST_SECONDS, lambda: sent.finish(None, None))
            if self._link is not None:
                self._link.when_drained(lambda: sent.finish(None, None))

        self._loop.call(end)
        sent.wait()
        self._end_loop()

    def _end_loop(self) -> None:
        self._loop.call(self._stop)
        self._thread.join()
        self._loop.close()

    def _stop(self) -> None:
        if self._link is not None:
            self._link.close()
        self._loop.stop()

    def _dial(self) -> None:
        connector = Connector(self._factory, DRIVER)
        connector.on_open = self._opened
        connector.on_over = self._refused
        connector.dial()

    def _opened(self, link: FrameLink) -> None:
        self._link = link
        link.on_frame = self._receive
        link.on_close = self._lost
        self._reached.finish(None, None)

    def _refused(self, why: Exception | None) -> None:
        if time.monotonic() < self._deadline:
            self._loop.after(_PAUSE_SECONDS, self._dial)
            return
        order = self._order
        problem = RunError(
            f"{self._name} cannot reach its driver at {order.host}:{order.port} ({why or 'the connection was closed'}): "
            "give the engine an address of the driver's host that all its machines can reach, with driver=."
        )
        self._reached.finish(None, problem)

    def _receive(self, link: FrameLink, frame: Frame) -> None:
        message = frame.message
        match message.topic:
            case "work":
                self._work = message
            case "begin":
                self._door, self._vain = None, False
                self._attempts.put(msgspec.json.decode(message.text, type=Beginning))
            case "door":
                self._door = message.text, int(message.numbers[0])
            case "over":
                self._vain = True
            case "stop":
                self._over = self._vain = True
                self._attempts.put(None)

    def _lost(self, link: FrameLink, why: Exception | None) -> None:
        if not self._over:
            notify(f"{self._name} ends, because the connection to its driver was lost{f' ({why})' if why else ''}.")
            self._on_loss()

    def _send(self, message: Message) -> None:
        self._flush()
        if self._link is not None:
            self._link.send_control(message)

    def _flush_soon(self) -> None:
        self._loop.after(_GATHERING_SECONDS, self._flush)

    def _flush(self) -> None:
        self._gathering = False  # before looking: an event that arrives meanwhile starts another flush
        events = [self._events.popleft() for _ in range(len(self._events))]
        if events and self._link is not None:
            self._link.send_control(Message("events", self._traffic(), tensors=packed(self._encoder.encode(events))))
