"""Interrupts the program of a worker: what it waits for in the present view of the crew will not come."""

from __future__ import annotations

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.port import epoch_of
from polyrhythm.core.kernel.serial_queue import SerialQueue
from polyrhythm.core.kernel.view import ViewChanged
from polyrhythm.core.simulator.actors import VirtualActor, VirtualTask


class Closed(Effect[None]):
    """The effect of a closed coroutine that is resumed by what it had waited for: nothing."""

    __slots__ = ()


_CLOSED = Closed()


def interrupt(actor: VirtualActor, interruption: ViewChanged) -> bool:
    """Close the coroutines of `actor`; its program raises `interruption` when it waits. True if it does so now."""
    program = actor.program
    if actor.ended or program is None or program.ended:
        return False
    waits = any(task.program is program and task.performed for task in actor.tasks)
    _close(actor)
    program.interruption = interruption
    return waits


def drop(actor: VirtualActor, epoch: int, task: VirtualTask | None = None) -> None:
    """Close the coroutines of `actor`, but for `task`, and drop messages of views before that of `epoch`."""
    _close(actor, task)
    actor.mail = {topic: box for topic, box in actor.mail.items() if epoch_of(topic) >= epoch}


def _close(actor: VirtualActor, but: VirtualTask | None = None) -> None:
    tasks = [task for task in actor.tasks if task is not but]
    actor.tasks = {} if but is None else {but: None}
    actor.waiters.clear()
    for task in tasks:
        task.serial += 1
        task.step = _closed
        task.coroutine.close()
    if actor.program is not None:
        for coroutine, _ in actor.program.take_started():
            coroutine.close()
        actor.program.line = SerialQueue[VirtualTask]()


def _closed(value: object) -> Effect[None]:
    return _CLOSED
