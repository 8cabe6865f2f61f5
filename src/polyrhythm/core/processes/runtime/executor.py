"""The coroutines of one actor, its mailboxes, and how their effects are carried out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from polyrhythm.core.kernel.effects import (
    Compute,
    Effect,
    Enter,
    Flush,
    NativeCollective,
    NativeExchange,
    NativeReduce,
    NativeReduceInPlace,
    NativeReduction,
    Receive,
    ReceiveAll,
    Send,
    SendAll,
    SendDatagram,
    ShareMemory,
    Sleep,
    Spawn,
    Wait,
)
from polyrhythm.core.kernel.latch import Latch
from polyrhythm.core.kernel.message import Delivery, Message
from polyrhythm.core.kernel.port import epoch_of
from polyrhythm.core.kernel.waiting import awaited
from polyrhythm.core.processes.runtime.memory import share
from polyrhythm.core.processes.transport.loop import EventLoop, LoopTimer
from polyrhythm.errors import DeadlockError

Done = Callable[[Any, BaseException | None], None]
Reducing = Callable[[NativeReduction, Done], bool]
"""Returns True if it will call back, in the loop's thread, with a sum."""


class Outbox(Protocol):
    """The connections over which an actor's messages leave."""

    def send(self, to: str, message: Message) -> None:
        """Send `message` to the actor `to` in the background."""

    def send_datagram(self, to: str, message: Message) -> None:
        """Send `message` to the actor `to`, once."""

    def when_drained(self, call: Callable[[], None], to: str = "") -> None:
        """Make `call` when all that was sent so far, `to` one actor if given, has left."""

    def rate(self, to: str = "") -> float | None:
        """Bytes per second that were delivered lately, `to` one actor if given; None where that is not known."""


class CoroutineTask:
    """A coroutine, an effect that it has awaited before it came here, and what it waits for.

    That is a message it `wants`, a sum if it `adds`, `latches` that other coroutines of the same actor open.
    """

    __slots__ = ("adds", "coroutine", "done", "latches", "name", "pending", "timer", "wants")

    def __init__(self, name: str, coroutine: Coroutine[Effect[Any], Any, Any], done: Done, pending: Effect[Any] | None = None) -> None:
        self.name = name
        self.coroutine = coroutine
        self.done = done
        self.pending = pending
        self.adds = False
        self.latches: tuple[Latch, ...] = ()
        self.wants: Receive | None = None
        self.timer: LoopTimer | None = None


class ActorExecutor:
    """Drives coroutines over effects, in the loop's thread.

    `reduce` makes the sum of a `NativeReduction` effect, or returns at once that it is left to messages. A coroutine given to `start`
    calls its `done` with its result or its error; the error of a spawned one goes to `on_error`. `tasks` are the coroutines that are under
    way.
    """

    def __init__(self, name: str, loop: EventLoop, outbox: Outbox, reduce: Reducing, on_error: Callable[[BaseException], None]) -> None:
        self.name = name
        self._loop = loop
        self.outbox = outbox
        self._reduce = reduce
        self._on_error = on_error
        self._mail: dict[str, deque[Delivery]] = {}
        self._waiting: dict[str, deque[CoroutineTask]] = {}
        self._gone: dict[str, str] = {}
        self._ready: deque[tuple[CoroutineTask, Any, BaseException | None]] = deque()
        self.tasks: dict[CoroutineTask, None] = {}
        self.epoch = 0
        """The epoch of the view that the actor is in: messages of earlier ones are dropped."""
        self._running = False
        self._closed = False

    def start(self, name: str, coroutine: Coroutine[Effect[Any], Any, Any], done: Done, pending: Effect[Any] | None = None) -> None:
        """Run `coroutine` until it waits for something; it may have been run elsewhere so far, up to an effect that is `pending`."""
        if self._closed:
            coroutine.close()
            return
        task = CoroutineTask(name, coroutine, done, pending)
        self.tasks[task] = None
        self._resume(task)

    def deliver(self, delivery: Delivery) -> None:
        """A message has come: to the first that waits for its topic, or into the mailbox."""
        topic = delivery.message.topic
        if self._closed or (self.epoch and epoch_of(topic) < self.epoch):
            return
        waiting = self._waiting.get(topic)
        if waiting:
            task = waiting[0]
            self._stop_waiting(task)
            self._resume(task, delivery)
        else:
            self._mail.setdefault(topic, deque()).append(delivery)

    def peer_gone(self, name: str, how: str) -> None:
        """Nothing more will come from the actor `name`, which "has ended" or "was lost": waits for it alone end with an error."""
        self._gone.setdefault(name, how)
        for task in list(self.tasks):
            wants = task.wants
            if wants is not None and wants.sender == name and wants.timeout is None:
                self._stop_waiting(task)
                self._resume(task, None, self._gone_error(wants))

    def standstill(self, adding: Sequence[str] = ()) -> list[str]:
        """The waits of all coroutines in words, if all wait for messages, for the sums that `adding` describes, or for each other."""
        waits = list(adding)
        for task in self.tasks:
            want = task.wants
            if want is not None and want.timeout is None:
                waits.append(f"{self.name} waits for {awaited(want.topic, want.sender)}")
            elif not (task.adds and adding) and all(latch.is_open for latch in task.latches):
                return []
        return waits

    def awaits(self, prefix: str) -> bool:
        """True if a coroutine waits for a message under a topic that begins with `prefix`."""
        return any(task.wants is not None and task.wants.topic.startswith(prefix) for task in self.tasks)

    def interrupt(self, but: CoroutineTask | None = None) -> None:
        """End all coroutines where they stand, except `but`, which waits for no message."""
        tasks = [task for task in self.tasks if task is not but]
        self.tasks = {} if but is None else {but: None}
        self._waiting.clear()
        for task in tasks:
            if task.timer is not None:
                task.timer.cancel()
            task.coroutine.close()

    def enter(self, epoch: int, but: CoroutineTask | None = None) -> None:
        """Go into the view of that `epoch`: `interrupt`, and drop the messages of earlier views."""
        self.epoch = epoch
        self._mail = {topic: box for topic, box in self._mail.items() if epoch_of(topic) >= epoch}
        self.interrupt(but)

    def close(self) -> None:
        """End all coroutines where they stand, and take no more messages."""
        self._closed = True
        self._mail.clear()
        self.interrupt()

    def _resume(self, task: CoroutineTask, value: Any = None, error: BaseException | None = None) -> None:
        """Let `task` continue; if another is running just now, after that one has come to wait."""
        self._ready.append((task, value, error))
        if self._running:
            return
        self._running = True
        try:
            while self._ready:
                self._advance(*self._ready.popleft())
        finally:
            self._running = False

    def _advance(self, task: CoroutineTask, value: Any, error: BaseException | None) -> None:
        task.adds = False
        while task in self.tasks:
            try:
                effect, task.pending = task.pending, None
                if effect is None:
                    effect = task.coroutine.send(value) if error is None else task.coroutine.throw(error)
            except StopIteration as stop:
                return self._end(task, stop.value, None)
            except BaseException as problem:  # raised where this coroutine is waited for
                return self._end(task, None, problem)
            try:
                waits, value = self._carry_out(task, effect)
                error = None
            except Exception as problem:  # an effect that cannot be had is an error of the coroutine
                waits, value, error = False, None, problem
            if waits:
                return None
        return None

    def _end(self, task: CoroutineTask, value: Any, error: BaseException | None) -> None:
        self.tasks.pop(task, None)
        task.done(value, error)

    def _spawned(self, value: Any, error: BaseException | None) -> None:
        if error is not None:
            self._on_error(error)

    def _carry_out(self, task: CoroutineTask, effect: Effect[Any]) -> tuple[bool, Any]:
        """Carry out `effect`: whether `task` must wait, and if not, the result."""
        match effect:
            case Send():
                self.outbox.send(effect.to, effect.message)
            case SendAll():
                for name in effect.to:
                    self.outbox.send(name, effect.message)
            case SendDatagram():
                self.outbox.send_datagram(effect.to, effect.message)
            case Receive():
                return self._receive(task, effect)
            case ReceiveAll():
                return False, self._mail.pop(effect.topic, ())
            case Compute():
                pass
            case Enter():
                self.enter(effect.epoch, task)
            case Flush():
                self.outbox.when_drained(lambda: self._loop.call(lambda: self._resume(task, self._rate(effect))), effect.to)
                return True, None
            case Sleep():
                task.timer = self._loop.after(effect.seconds, lambda: self._resume(task))
                return True, None
            case Spawn():
                child = CoroutineTask(effect.name, effect.coroutine, self._spawned)
                self.tasks[child] = None
                self._ready.append((child, None, None))
            case Wait():
                if effect.latch.is_open:
                    return False, None
                task.latches = (effect.latch,)
                effect.latch.when_open(lambda: self._resume(task))
                return True, None
            case NativeReduce() | NativeReduceInPlace() | NativeCollective():
                task.latches = effect.after
                task.adds = self._reduce(effect, lambda value, error: self._resume(task, value, error))
                return task.adds, None
            case ShareMemory():
                return False, share(effect)
            case NativeExchange():
                return False, None
            case _:
                raise TypeError(f"{effect!r} is not an effect that processes support.")
        return False, None

    def _rate(self, effect: Flush) -> float | None:
        """The rate, where `effect` asks for it: the system is called for every connection."""
        return self.outbox.rate(effect.to) if effect.rated else None

    def _receive(self, task: CoroutineTask, effect: Receive) -> tuple[bool, Delivery | None]:
        box = self._mail.get(effect.topic)
        if box:
            delivery = box.popleft()
            if not box:
                del self._mail[effect.topic]
            return False, delivery
        if effect.timeout is not None and effect.timeout <= 0:
            return False, None
        if effect.timeout is None and effect.sender in self._gone:
            raise self._gone_error(effect)
        task.wants = effect
        self._waiting.setdefault(effect.topic, deque()).append(task)
        if effect.timeout is not None:
            task.timer = self._loop.after(effect.timeout, lambda: self._time_out(task))
        return True, None

    def _time_out(self, task: CoroutineTask) -> None:
        self._stop_waiting(task)
        self._resume(task)

    def _stop_waiting(self, task: CoroutineTask) -> None:
        if task.wants is not None:
            waiting = self._waiting[task.wants.topic]
            waiting.remove(task)
            if not waiting:
                del self._waiting[task.wants.topic]
            task.wants = None
        if task.timer is not None:
            task.timer.cancel()
            task.timer = None

    def _gone_error(self, effect: Receive) -> DeadlockError:
        return DeadlockError(f"{self.name} waits for {awaited(effect.topic, effect.sender)}, which {self._gone[effect.sender]}.")
