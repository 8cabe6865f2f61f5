"""Actors, their tasks and mailboxes, and the channels between them. The scheduler makes one actor for each worker and server."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.events import Recorder
from polyrhythm.core.kernel.message import Delivery
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.kernel.serial_queue import SerialQueue
from polyrhythm.core.kernel.view import ViewChanged
from polyrhythm.hardware.fleet import ComputeTimer

PENDING = object()
"""The result of an effect for which a task waits."""


class BlockingProgram(Protocol):
    """The user's blocking loop as the scheduler drives it; `since` is when it was last continued, `line` what it has started in order.

    It is `parked` where its gradients are computed with those of others: its charge is under way, and it waits for them.
    """

    since: float
    charged: float
    record: Recorder
    line: SerialQueue[VirtualTask]
    parked: bool
    interruption: ViewChanged | None

    @property
    def actor(self) -> VirtualActor: ...

    @property
    def ended(self) -> bool: ...

    @property
    def started(self) -> Sequence[object]: ...

    def run(self, value: Any, error: BaseException | None = None) -> Any: ...

    def take_started(self) -> list[tuple[Coroutine[Effect[Any], Any, None], float]]: ...

    def kill(self) -> None: ...


@dataclass(slots=True, eq=False)
class VirtualTask:
    """A coroutine that runs; `program` is set when a blocking program waits for its end, `beside` when one continues meanwhile.

    `waiting` is the effect that it waits for, `serial` counts its waits (a timer of an earlier wait is stale), and `grad` is the grad mode
    in which it was suspended, where gradients were off. `performed` is true from when its program waits for it.
    """

    actor: VirtualActor
    coroutine: Coroutine[Effect[Any], Any, Any]
    program: BlockingProgram | None = None
    name: str = ""
    step: Callable[[Any], Effect[Any]] = field(init=False)
    waiting: Effect[Any] | None = None
    serial: int = 0
    grad: bool | None = None
    beside: BlockingProgram | None = None
    performed: bool = False

    def __post_init__(self) -> None:
        self.step = self.coroutine.send


@dataclass(slots=True, eq=False)
class VirtualActor:
    """A worker or a server. Nothing in it runs until `held_until` (a stall; for ever once it has ended).

    `free_at` is when its device has done all its work, `stalled` the seconds for which it has been stalled so far.
    """

    name: str
    port: Port
    timing: ComputeTimer
    program: BlockingProgram | None = None
    mail: dict[str, list[Delivery]] = field(default_factory=dict)
    waiters: dict[str, list[VirtualTask]] = field(default_factory=dict)
    tasks: dict[VirtualTask, None] = field(default_factory=dict)
    channels: dict[str, FifoChannel] = field(default_factory=dict)
    held_until: float = 0.0
    free_at: float = 0.0
    stalled: float = 0.0
    bytes_sent: int = 0
    messages_sent: int = 0
    ended: bool = False
    """True if it has ended or was lost."""

    def take(self, topic: str) -> Delivery | None:
        """The oldest message under `topic`, if there is one."""
        box = self.mail.get(topic)
        if box is None:
            return None
        delivery = box.pop(0)
        if not box:
            del self.mail[topic]
        return delivery

    def take_all(self, topic: str) -> Sequence[Delivery]:
        """All messages under `topic`, the oldest first."""
        return self.mail.pop(topic, ())

    def put(self, delivery: Delivery) -> None:
        """Keep a message for which no task waits yet."""
        topic = delivery.message.topic
        box = self.mail.get(topic)
        if box is None:
            box = self.mail[topic] = []
        box.append(delivery)

    def wait(self, task: VirtualTask, topic: str) -> None:
        """Append `task` to those that wait for messages under `topic`."""
        line = self.waiters.get(topic)
        if line is None:
            line = self.waiters[topic] = []
        line.append(task)

    def next_waiter(self, topic: str) -> VirtualTask | None:
        """Remove and return the task that has waited longest for `topic`."""
        line = self.waiters.get(topic)
        if line is None:
            return None
        task = line.pop(0)
        if not line:
            del self.waiters[topic]
        return task

    def give_up(self, task: VirtualTask, topic: str) -> None:
        """Let `task` no longer wait for `topic`."""
        line = self.waiters[topic]
        line.remove(task)
        if not line:
            del self.waiters[topic]

    def end(self) -> None:
        """Stop the actor for good: close its tasks and drop its messages."""
        self.held_until, self.ended = math.inf, True
        tasks = list(self.tasks)
        self.tasks.clear()
        self.mail.clear()
        self.waiters.clear()
        for task in tasks:
            task.serial += 1
            task.coroutine.close()


@dataclass(slots=True, eq=False)
class FifoChannel:
    """The channel from one actor to another, and the messages on it, oldest first (None in the place of one that will be lost).

    `loses` draws whether the next message, under a topic, is lost; `crosses` is whether it leads to another site. `fates` are, of
    datagrams alone, the seconds by which each copy that arrives is late. A channel is its own token in the carrier, which keeps the order
    of each channel: every arrival is that of the oldest message, in whatever order simultaneous arrivals are handled.
    """

    sender: VirtualActor
    receiver: VirtualActor
    loses: Callable[[str], bool] | None
    crosses: bool = False
    fates: list[tuple[float, ...]] | None = None
    line: list[Delivery | None] = field(default_factory=list)
    left: list[tuple[float, int]] | None = None
    """The time at which each of `line` was sent, and its bytes, where that is recorded."""
    nbytes: int = 0
    messages: int = 0
    busy: float = 0.0
    since: float = 0.0
    """The traffic of the channel, as in `Carried`; `since` is when a message was sent on the empty line."""
