"""How a coroutine waits for a latch that others open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polyrhythm.core.kernel.effects import Wait
from polyrhythm.core.simulator.actors import PENDING, VirtualTask
from polyrhythm.core.simulator.event_queue import EventQueue

Wake = Callable[[VirtualTask, Any], None]


def waiting(queue: EventQueue, wake: Wake) -> Callable[[VirtualTask, Wait], object]:
    """The handler of `Wait`."""

    def wait(task: VirtualTask, effect: Wait) -> object:
        if not effect.latch.is_open:
            effect.latch.when_open(lambda: queue.ready.append((wake, task, None)))
        return None if effect.latch.is_open else PENDING

    return wait
