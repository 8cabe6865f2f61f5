"""Tasks that wait until what their actor has sent has left it (`Flush`). The scheduler has one `Flushes` for all actors."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from polyrhythm.core.kernel.effects import Flush
from polyrhythm.core.simulator.actors import PENDING, VirtualTask
from polyrhythm.core.simulator.event_queue import EventQueue
from polyrhythm.core.simulator.mailroom import Carrier, Mailroom


class Flushes:
    """The waiting tasks, by sender and receiver, numbered in the order in which they began to wait."""

    def __init__(self, queue: EventQueue, mailroom: Mailroom, carrier: Carrier | None, wake: Callable[[VirtualTask, Any], None]) -> None:
        self.waiting: dict[tuple[str, str], list[tuple[int, VirtualTask]]] = {}
        self._queue = queue
        self._mailroom = mailroom
        self._carrier = carrier
        self._wake = wake
        self._count = 0

    def wait(self, task: VirtualTask, effect: Flush) -> object:
        """Have `task` wait; None if all has left."""
        name = task.actor.name
        if (left := self._mailroom.left(name, effect.to)) > self._queue.now:
            self._queue.at(left, (self._again, task, effect))
            return PENDING
        if self._carrier is None or not self._carrier.sending(name, effect.to):
            return None
        self._count += 1
        self.waiting.setdefault((name, effect.to), []).append((self._count, task))
        return PENDING

    def release(self) -> bool:
        """Resume the tasks whose actor's last byte has left, in the order in which they began to wait."""
        assert self._carrier is not None
        released: list[tuple[int, VirtualTask]] = []
        for way in self._carrier.fell_silent:
            if way in self.waiting and not self._carrier.sending(*way):
                released += self.waiting.pop(way)
        self._carrier.fell_silent.clear()
        for _, task in sorted(released, key=itemgetter(0)):
            self._queue.ready.append((self._wake, task, None))
        return bool(released)

    def _again(self, task: VirtualTask, effect: Flush) -> None:
        """The messages to many have left: resume `task`, or wait again if more has been sent meanwhile."""
        if self.wait(task, effect) is not PENDING:
            self._wake(task, None)
