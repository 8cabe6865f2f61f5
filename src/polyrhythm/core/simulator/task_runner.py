"""Resumes coroutines, and gives them the messages and times that they wait for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import is_grad_enabled

from polyrhythm.core.kernel.effects import Compute, Receive, Sleep
from polyrhythm.core.kernel.message import Delivery
from polyrhythm.core.simulator.actors import PENDING, VirtualActor, VirtualTask
from polyrhythm.core.simulator.event_queue import EventQueue, Work
from polyrhythm.errors import Stopped

Over = Callable[[VirtualTask, Any, BaseException | None], None]
Handlers = Mapping[type, Callable[[VirtualTask, Any], Any]]


class TaskRunner:
    """Runs tasks until they wait or end. `handlers` do what each effect asks for; `over` gets what ended, its result or its error.

    `resume` is what others call in place of `wake`: it may let something else happen before. `expire` is the timer of a timeout.
    """

    __slots__ = ("_expire", "_handlers", "_over", "_queue", "resume")

    def __init__(self, queue: EventQueue, handlers: Handlers, over: Over, expire: Callable[[VirtualTask, int], None]) -> None:
        self._queue = queue
        self._handlers = handlers
        self._over = over
        self._expire = expire
        self.resume: Callable[[VirtualTask, Any], None] = self.wake

    def wake(self, task: VirtualTask, value: Any) -> None:
        """Resume a coroutine with `value` until it waits or ends; that of a stalled actor when this may continue."""
        if task.actor.held_until > self._queue.now:
            if not task.actor.ended:
                self._queue.at(task.actor.held_until, (self.resume, task, value))
            return
        if task.grad is not None:
            torch.set_grad_enabled(task.grad)
            task.grad = None
        step, handlers = task.step, self._handlers
        error: Exception | SystemExit | None = None
        try:
            effect = step(value)
            while (result := handlers[type(effect)](task, effect)) is not PENDING:
                effect = step(result)
            task.waiting = effect
            if not is_grad_enabled():
                task.grad = False
                torch.set_grad_enabled(True)
            return
        except StopIteration as stop:
            value = stop.value
        except Stopped:
            raise
        except (Exception, SystemExit) as caught:  # a program that exits must not end the others without an error
            error = caught
            task.coroutine.close()  # still open where the runtime refused its effect
        if not is_grad_enabled():
            torch.set_grad_enabled(True)
        self._over(task, value, error)

    def receive(self, task: VirtualTask, effect: Receive) -> object:
        """The oldest message under a topic, or wait for one."""
        if (delivery := task.actor.take(effect.topic)) is not None:
            return delivery
        if effect.timeout is not None:
            if effect.timeout <= 0:
                return None
            self._queue.at(self._queue.now + effect.timeout, (self._expire, task, task.serial))
        task.actor.wait(task, effect.topic)
        return PENDING

    def sleep(self, task: VirtualTask, effect: Sleep) -> object:
        """Wait for a time."""
        self._queue.at(self._queue.now + effect.seconds, (self.resume, task, None))
        return PENDING

    def compute(self, task: VirtualTask, effect: Compute) -> object:
        """Let the time of the work pass on the actor's device."""
        timing = task.actor.timing
        if effect.step:
            seconds = timing.step_seconds(effect.flops, 0)
        else:
            seconds = (timing.seconds(effect.flops) if effect.flops > 0 else 0.0) + timing.merge_seconds(effect.contributions)
        if seconds <= 0:
            return None
        self.charge(task.actor, seconds, (self.resume, task, None))
        return PENDING

    def charge(self, actor: VirtualActor, seconds: float, work: Work) -> None:
        """Occupy the actor's device for `seconds`, after its earlier work; then do `work`."""
        if seconds <= 0:
            self._queue.ready.append(work)
            return
        actor.free_at = max(actor.free_at, self._queue.now) + seconds
        self._queue.at(actor.free_at, (self.worked, (actor, actor.stalled), work))

    def worked(self, whose: tuple[VirtualActor, float], work: Work) -> None:
        """Work is done, unless the actor was stalled meanwhile."""
        actor, stalled = whose
        if actor.stalled > stalled:
            self._queue.at(self._queue.now + actor.stalled - stalled, (self.worked, (actor, actor.stalled), work))
        else:
            work[0](work[1], work[2])

    def deliver(self, receiver: VirtualActor, delivery: Delivery) -> None:
        """Give a message to the task that has waited longest for its topic, or keep it."""
        if receiver.ended:
            return
        task = receiver.next_waiter(delivery.message.topic)
        if task is None:
            receiver.put(delivery)
        else:
            task.serial += 1
            self.resume(task, delivery)
