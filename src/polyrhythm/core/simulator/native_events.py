"""The queue, what resumes tasks, and the post in C: see `_events.c`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import is_grad_enabled

from polyrhythm.core.kernel.effects import Compute, Receive, Send, Sleep
from polyrhythm.core.kernel.message import Delivery, Message
from polyrhythm.core.simulator import event_queue, post, task_runner
from polyrhythm.core.simulator._events import EventQueue, Post, TaskRunner, bind_classes  # so what is missing differs from what is broken
from polyrhythm.core.simulator.actors import PENDING, FifoChannel, VirtualActor, VirtualTask
from polyrhythm.errors import Stopped


def native_events() -> tuple[Callable[..., event_queue.EventQueue], Callable[..., task_runner.TaskRunner], Callable[..., post.Post]]:
    """What makes a queue, what runs its tasks, and their post, as `EventParts` says."""
    bind_classes((VirtualTask, VirtualActor, FifoChannel, Delivery, Message, Send, Receive, Sleep, Compute))
    return _queue, _runner, _post


def _queue(shuffle_ties: int | None) -> event_queue.EventQueue:
    made = EventQueue() if shuffle_ties is None else EventQueue(event_queue.ShuffledTies(shuffle_ties))
    return cast(event_queue.EventQueue, made)


def _runner(
    queue: Any, handlers: task_runner.Handlers, over: task_runner.Over, expire: Callable[[Any, Any], None]
) -> task_runner.TaskRunner:
    made = TaskRunner(queue, handlers, over, expire, PENDING, Stopped, is_grad_enabled, torch.set_grad_enabled)
    return cast(task_runner.TaskRunner, made)


def _post(queue: Any, runner: Any, start: post.Start | None, hooks: post.PostHooks) -> post.Post:
    made = Post(queue, runner, start, hooks.open, hooks.hand_over, hooks.sent, hooks.noted, hooks.late, hooks.close)
    return cast(post.Post, made)
