"""The classes of the queue, of what resumes tasks, and of the post: in C where that was built, else in Python; events have one order.

A scheduler is composed of them; `BEST` are those of this installation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from polyrhythm.core.simulator.event_queue import EventQueue
from polyrhythm.core.simulator.post import Post, PostHooks, Start
from polyrhythm.core.simulator.task_runner import Handlers, Over, TaskRunner

try:
    from polyrhythm.core.simulator.native_events import native_events
except ImportError as missing:
    if missing.name != "polyrhythm.core.simulator._events":
        raise
    native_events = None  # type: ignore[assignment]  # no C compiler was at hand, or what it made is of older sources


@dataclass(frozen=True, slots=True)
class EventParts:
    """What makes a queue, of which ties are shuffled by a seed or not; what runs its tasks; and their post."""

    queue: Callable[[int | None], EventQueue]
    runner: Callable[[EventQueue, Handlers, Over, Callable[[Any, Any], None]], TaskRunner]
    post: Callable[[EventQueue, TaskRunner, Start | None, PostHooks], Post]


PORTABLE = EventParts(EventQueue, TaskRunner, Post)
NATIVE = None if native_events is None else EventParts(*native_events())
BEST = NATIVE or PORTABLE
