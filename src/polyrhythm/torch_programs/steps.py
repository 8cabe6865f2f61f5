"""The steps of a rank, which are those of its optimizers: recorded, so that tables, reports and `diagnose` know them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import msgspec
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from polyrhythm.core.kernel.events import Reported, Stepped
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.torch_programs.rank_settings import EnoughSteps
from polyrhythm.torch_programs.ranks import current, memory_here


class RankSteps:
    """Counts the steps of one rank. It takes at most `most`.

    Where there are several optimizers, a step begins with one that has stepped in the last: so those that step together, or in turns, are
    counted once, and one that follows when another is done counts on.
    """

    def __init__(self, context: WorkerContext, most: int | None = None) -> None:
        self._context = context
        self._most = most
        self._stepped: WeakSet[Optimizer] = WeakSet()
        """Those that have taken the last step."""
        self._clock = 0
        self._samples = 0
        self._worked = 0
        """The steps of the worker that the rank is."""
        self._metrics: dict[str, float] = {}
        self._worker: set[str] = set()
        """The metrics that a worker of ours has reported."""
        self._taking: Callable[[int], None] = self._record

    def begin(self) -> None:
        """A step begins. Raises EnoughSteps after the last one that is wanted."""
        if self._most is not None and self._clock >= self._most:
            raise EnoughSteps

    def count(self, optimizer: Optimizer) -> None:
        """The optimizer has taken a step."""
        if (memory := memory_here()) is not None:
            memory.stepped(optimizer)
        if not self._stepped or optimizer in self._stepped:
            self._stepped.clear()
            self._context.charge(0)
            self._taking(self._clock + 1)
        self._stepped.add(optimizer)

    def _record(self, clock: int) -> None:
        self._clock = clock
        context = self._context
        context.record(Stepped(context.time(), context.port.name, clock, self._samples, context.bytes_sent))

    def join(self) -> None:
        """The rank becomes a worker of ours: steps are those of the worker."""
        self._taking, self._worked = _ignore, 0

    def leave(self) -> None:
        """It is none any more."""
        self._taking = self._record

    def worked(self, clock: int, samples: int) -> None:
        """The worker has taken its step `clock`, perhaps with another of its models, and has computed on so many samples until now."""
        self._samples = samples
        if clock > self._worked:
            self._worked = clock
            self._record(self._clock + 1)

    def reported(self, metrics: dict[str, float]) -> None:
        """The worker has reported metrics."""
        self._worker |= metrics.keys()
        self.report(metrics)

    def printed(self, metrics: dict[str, float]) -> None:
        """The program has printed metrics, which count where a worker reports none of the name."""
        if not self._worker & metrics.keys():
            self.report(metrics)

    def report(self, metrics: dict[str, float]) -> None:
        """Record metrics as they are now."""
        self._metrics |= metrics
        context = self._context
        context.record(Reported(context.time(), context.port.name, self._clock, metrics, context.bytes_sent))

    def result(self) -> Message:
        """What a run concludes from: the steps, the samples that a worker has counted, and the last metrics."""
        text = msgspec.json.encode({"names": [], "metrics": self._metrics}).decode()
        return Message("result", (self._clock, self._samples, 0.0), text)


def _ignore(taken: int) -> None:
    """The worker counts it."""


@contextmanager
def steps_counted() -> Iterator[None]:
    """Have the steps of all ranks counted."""

    def begins(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        rank = current()
        if rank is not None:
            rank.steps.begin()

    def stepped(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        rank = current()
        if rank is not None:
            rank.steps.count(optimizer)

    handles = [register_optimizer_step_pre_hook(begins), register_optimizer_step_post_hook(stepped)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
