"""A runtime for tests: whatever may happen next is drawn from a seed, and the run can be paused at any point.

Messages between two actors keep their order; nothing else is promised. It shares no code with the real runtimes.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Coroutine
from typing import Any

import numpy as np

from polyrhythm.core.kernel.effects import Compute, Flush, NativeReduce, Receive, ReceiveAll, Send, SendAll, Sleep, Spawn, Wait
from polyrhythm.core.kernel.message import Delivery, Message
from polyrhythm.core.kernel.port import Port


class Task:
    """A coroutine, and the effect that it waits for."""

    def __init__(self, actor: str, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.actor = actor
        self.coroutine = coroutine
        self.waits: Any = None
        self.response: Any = None
        self.done = False


class Schedule:
    """Actors, what is under way between them, and a seeded choice of what happens next."""

    def __init__(self, seed: int) -> None:
        self.draw = np.random.default_rng(seed)
        self.seed = seed
        self.tasks: list[Task] = []
        self.under_way: dict[tuple[str, str], deque[Message]] = defaultdict(deque)
        self.mail: dict[tuple[str, str], deque[Delivery]] = defaultdict(deque)
        self.steps = 0

    def port(self, name: str) -> Port:
        """A port whose effects this schedule responses."""
        return Port(name, self.seed, lambda: float(self.steps))

    def start(self, name: str, coroutine: Coroutine[Any, Any, Any]) -> Task:
        """Add an actor, or a task of one."""
        self.tasks.append(Task(name, coroutine))
        return self.tasks[-1]

    def run(self, until: int = 10**9) -> bool:
        """Let things happen until nothing can, or `until` of them have; whether nothing can any more."""
        while self.steps < until:
            choices: list[Any] = [task for task in self.tasks if not task.done and self._can(task)]
            choices += [pair for pair, messages in self.under_way.items() if messages]
            if not choices:
                return True
            self.steps += 1
            choice = choices[self.draw.integers(len(choices))]
            if isinstance(choice, Task):
                self._advance(choice)
            else:
                sender, receiver = choice
                message = self.under_way[choice].popleft()
                self.mail[receiver, message.topic].append(Delivery(sender, message))
        return False

    def close(self) -> None:
        """End what still waits."""
        for task in self.tasks:
            task.coroutine.close()

    def _can(self, task: Task) -> bool:
        effect = task.waits
        if isinstance(effect, Wait):
            return effect.latch.is_open
        return not isinstance(effect, Receive) or effect.timeout is not None or bool(self.mail[task.actor, effect.topic])

    def _advance(self, task: Task) -> None:
        """Up to the next effect that waits: a sender goes on at once."""
        if isinstance(task.waits, Receive):
            box = self.mail[task.actor, task.waits.topic]
            task.response = box.popleft() if box else None
        while True:
            try:
                effect = task.coroutine.send(task.response)
            except StopIteration:
                task.done = True
                return
            task.waits, task.response = effect, None
            match effect:
                case Send():
                    self.under_way[task.actor, effect.to].append(effect.message)
                case SendAll():
                    for name in effect.to:
                        self.under_way[task.actor, name].append(effect.message)
                case ReceiveAll():
                    task.response = self.mail.pop((task.actor, effect.topic), ())
                case Spawn():
                    self.start(task.actor, effect.coroutine)
                case Flush() | NativeReduce() | Compute():
                    pass
                case Receive() | Sleep() | Wait():
                    return
                case _:
                    raise TypeError(f"{effect!r} is not an effect that this runtime has.")
