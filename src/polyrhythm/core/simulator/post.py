"""Messages from one actor to another: counted when they are sent, and delivered in the order sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from polyrhythm.core.kernel.effects import Send
from polyrhythm.core.kernel.message import ASIDE, Delivery, Message, wire_bytes
from polyrhythm.core.simulator.actors import FifoChannel, VirtualActor, VirtualTask
from polyrhythm.core.simulator.event_queue import EventQueue
from polyrhythm.core.simulator.task_runner import TaskRunner

Start = Callable[[float, str, str, int, object], None]
"""Begins to carry bytes from an actor to another, and a token with them."""


@dataclass(frozen=True, slots=True)
class PostHooks:
    """What is done about messages beyond carrying them.

    `open` makes the channel to an actor of a name, `hand_over` delivers to such an actor what is not counted. `sent` notes a message and
    its bytes, where that is recorded; `noted` the arrival on a channel that was noted so, and None for a lost message. `late` lets a
    datagram arrive at its times. `close` forgets an idle channel.
    """

    open: Callable[[VirtualActor, str], FifoChannel]
    hand_over: Callable[[str, Delivery], None]
    sent: Callable[[FifoChannel, Message, int], None] | None
    noted: Callable[[FifoChannel, Delivery | None], None]
    late: Callable[[FifoChannel, Delivery | None], None]
    close: Callable[[FifoChannel], None]


class Post:
    """Sends and delivers. Without a `start` the network takes no time. `crowded`: idle channels are to be forgotten."""

    __slots__ = (
        *("_arrive", "_hooks", "_measured", "_nbytes", "_queue", "_runner", "_start"),
        *("bytes_between_sites", "bytes_sent", "crowded", "messages_sent"),
    )

    def __init__(self, queue: EventQueue, runner: TaskRunner, start: Start | None, hooks: PostHooks) -> None:
        self.bytes_sent = 0
        self.messages_sent = 0
        self.bytes_between_sites = 0
        self.crowded = False
        self._queue = queue
        self._runner = runner
        self._start = start
        self._hooks = hooks
        self._arrive: Callable[[Any, Any], None] = self.arrive
        self._measured: Message | None = None
        self._nbytes = 0

    def send(self, task: VirtualTask, effect: Send) -> None:
        """Count a message and send it."""
        actor, message, to = task.actor, effect.message, effect.to
        if message.topic[:1] == ASIDE:
            self._queue.ready.append((self._hooks.hand_over, to, Delivery(actor.name, message)))
            return
        self.dispatch(actor.channels.get(to) or self._hooks.open(actor, to), message)

    def dispatch(self, channel: FifoChannel, message: Message) -> None:
        """Send a message on `channel`."""
        actor = channel.sender
        if message is not self._measured:  # a server sends the same message to a thousand workers
            self._measured, self._nbytes = message, wire_bytes(message)
        nbytes = self._nbytes
        actor.bytes_sent += nbytes
        actor.messages_sent += 1
        self.bytes_sent += nbytes
        self.messages_sent += 1
        if channel.crosses:
            self.bytes_between_sites += nbytes
        channel.nbytes += nbytes
        channel.messages += 1
        if not channel.line:
            channel.since = self._queue.now
        lost = channel.loses is not None and channel.loses(message.topic)
        channel.line.append(None if lost else Delivery(actor.name, message))
        if self._hooks.sent is not None:
            self._hooks.sent(channel, message, nbytes)
        if self._start is None:
            self._queue.ready.append((self._arrive, channel, None))
        else:
            self._start(self._queue.now, actor.name, channel.receiver.name, nbytes, channel)

    def arrive(self, channel: FifoChannel, _: None) -> None:
        """Deliver the oldest message on `channel`."""
        delivery = channel.line.pop(0)
        if not channel.line:
            channel.busy += self._queue.now - channel.since
        if channel.left:
            self._hooks.noted(channel, delivery)
        if channel.fates is not None:
            self._hooks.late(channel, delivery)
            return
        if self.crowded and not channel.line and channel.loses is None:
            self._hooks.close(channel)
        if delivery is not None:
            self._runner.deliver(channel.receiver, delivery)
