"""A training function that is over after so many batches, and all that is evaluated with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from polyrhythm.errors import PolyrhythmError
from polyrhythm.planner.memory import held
from polyrhythm.training.evaluation import Moments, every_moment
from polyrhythm.training.worker import Worker
from polyrhythm.workloads.settings import Train


@dataclass(slots=True)
class Noted:
    """What a run found: the bytes that worker 0 holds between steps, 0 where that is not known, and the step after which it was to end."""

    held: int = 0
    last: int | None = None


@dataclass(frozen=True, slots=True)
class Limited:
    """As `train`, but `worker.batches` ends after so many `steps`: the same at all workers, so that none waits for another's step.

    In one process, where all workers share this object, `end_after` makes it end sooner. With `whole_epochs` it goes on to the end of an
    epoch: of a strategy whose workers pass over steps that others take, no part of one ends at the same step everywhere. A training
    function that does not take its batches from `worker.batches` goes on to its own end. `moments` chooses when the result is evaluated.
    """

    train: Train
    steps: int
    whole_epochs: bool = False
    moments: Moments = every_moment
    noted: Noted = field(default_factory=Noted, compare=False)

    def end_after(self, step: int) -> None:
        """Let no worker begin a later step; none may have begun one."""
        if self.noted.last is None and step < self.steps:
            self.noted.last = step

    @property
    def last(self) -> int:
        """The step after which it ends."""
        return self.steps if self.noted.last is None else self.noted.last

    def __call__(self, worker: Worker) -> object:
        """Train, as one of the workers."""
        whole, evaluate = worker.batches, worker.evaluate
        worker.evaluate = lambda function: evaluate(function, self.moments)  # type: ignore[method-assign, assignment, misc]

        def batches(*given: Any, **named: Any) -> _Batches | tuple[()]:
            return () if worker.clock >= self.last else _Batches(whole(*given, **named), worker, self)

        worker.batches = batches  # type: ignore[method-assign, assignment]
        result = self.train(worker)
        if worker.rank == 0:
            try:
                self.noted.held = held(worker)
            except PolyrhythmError:  # of a system whose state cannot be read now
                self.noted.held = 0
        return result


@dataclass(frozen=True, slots=True)
class _Batches:
    whole: Any
    worker: Worker
    limit: Limited

    def __len__(self) -> int:
        return len(self.whole)

    def __iter__(self) -> Iterator[Any]:
        for batch in self.whole:
            yield batch
            if self.worker.clock >= self.limit.last and not self.limit.whole_epochs:
                return
