"""The steps of a rank, which are those of its optimizers: recorded, so that tables, reports and `diagnose` know them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from polyrhythm.core.kernel.events import Reported, Stepped
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.torch_programs.ranks import current, memory_here


class RankSteps:
    """Counts the steps of one rank: those of the optimizer that has taken most, where there are several."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._taken: WeakKeyDictionary[Optimizer, int] = WeakKeyDictionary()
        self._clock = 0
        self._metrics: dict[str, float] = {}

    def count(self, optimizer: Optimizer) -> None:
        """The optimizer has taken a step."""
        if (memory := memory_here()) is not None:
            memory.stepped(optimizer)
        taken = self._taken[optimizer] = self._taken.get(optimizer, 0) + 1
        if taken > self._clock:
            self._clock = taken
            self._context.charge(0)
            self._context.record(Stepped(self._context.time(), self._context.port.name, taken, 0, self._context.bytes_sent))

    def report(self, metrics: dict[str, float]) -> None:
        """The program has reported metrics."""
        self._metrics |= metrics
        context = self._context
        context.record(Reported(context.time(), context.port.name, self._clock, metrics, context.bytes_sent))

    def result(self) -> Message:
        """What a run concludes from: the steps, no samples, and the last metrics."""
        text = msgspec.json.encode({"names": [], "metrics": self._metrics}).decode()
        return Message("result", (self._clock, 0, 0.0), text)


@contextmanager
def steps_counted() -> Iterator[None]:
    """Have the steps of all ranks counted."""

    def stepped(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        rank = current()
        if rank is not None:
            rank.steps.count(optimizer)

    handle = register_optimizer_step_post_hook(stepped)
    try:
        yield
    finally:
        handle.remove()
