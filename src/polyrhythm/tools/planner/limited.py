"""A training function that is over after so many batches, and all that is evaluated with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from types import MethodType
from typing import Any

import torch
from torch import nn

from polyrhythm.core.job_files.settings import Train
from polyrhythm.core.torch_private.one_process import mark_wrapped_by_scheduler
from polyrhythm.core.training.evaluation import Moments, every_moment
from polyrhythm.core.training.worker import Worker
from polyrhythm.errors import PolyrhythmError
from polyrhythm.tools.measuring.held import held
from polyrhythm.tools.planner.early_end import EarlyEnd


@dataclass(slots=True)
class Noted:
    """Notes of a run: the bytes that worker 0 holds between steps, 0 where that is not known, and the step after which it was to end."""

    held: int = 0
    last: int | None = None


@dataclass(frozen=True, slots=True)
class Limited:
    """Trains with `train`, but ends after so many `steps`: the same at all workers, so that none waits for another's step.

    `worker.batches` ends then, and what follows the loops still runs. Steps on samples that come from elsewhere (`get_batch`, an
    environment, a loader of the JOB's own) end with the last `optimizer.step()` itself.

    In one process, where all workers share this object, `end_after` makes it end sooner. With `whole_epochs` it continues to the end of an
    epoch: where workers skip steps that others take, no part of an epoch ends at the same step everywhere. `moments` chooses when the
    result is evaluated. `early` looks at worker 0's own weights now and then.
    """

    train: Train
    steps: int
    whole_epochs: bool = False
    moments: Moments = every_moment
    early: EarlyEnd | None = None
    noted: Noted = field(default_factory=Noted, compare=False)

    def end_after(self, step: int) -> None:
        """Let no worker begin a later step; none may be in one already."""
        if self.noted.last is None and step < self.steps:
            self.noted.last = step

    @property
    def last(self) -> int:
        """The step after which it ends."""
        return self.steps if self.noted.last is None else self.noted.last

    def __call__(self, worker: Worker) -> object:
        """Train, as one of the workers."""
        _Limits(self, worker).take_over()
        result: object = None
        with suppress(_Over):
            result = self.train(worker)
        if worker.rank == 0:
            try:
                self.noted.held = held(worker)
            except PolyrhythmError:  # of a system whose state cannot be read now
                self.noted.held = 0
        return result


class _Over(BaseException):
    """Ends a training function in the middle of its loop, past its own `except Exception`."""


class _Limits:
    """The limits of one worker: `passes` loops over batches are under way, which end by themselves."""

    def __init__(self, limited: Limited, worker: Worker) -> None:
        self.limited = limited
        self.worker = worker
        self.passes = 0
        self._batches, self._attach, self._evaluate = worker.batches, worker.attach, worker.evaluate

    def take_over(self) -> None:
        """Let the worker end what it gives to the training function."""
        worker = self.worker
        worker.batches, worker.attach, worker.evaluate = self.batches, self.attach, self.evaluate  # type: ignore[method-assign, assignment]

    @property
    def over(self) -> bool:
        """True if the last step was taken."""
        return self.worker.clock >= self.limited.last

    def evaluate(self, function: Any, moments: Moments = every_moment) -> None:
        """Evaluate at the moments that were chosen, those of the training function where none were."""
        self._evaluate(function, moments if self.limited.moments is every_moment else self.limited.moments)

    def batches(self, *given: Any, **named: Any) -> _Batches | tuple[()]:
        """The worker's batches, which end after the last step."""
        return () if self.over else _Batches(self._batches(*given, **named), self)

    def look(self) -> None:
        """Let `early` see what worker 0's own weights are worth, if it is time to."""
        early, worker = self.limited.early, self.worker
        if early is not None and not worker.rank and early.is_due(worker.clock):
            early.look(worker.clock, worker.own_metrics)

    def attach(self, model: nn.Module, optimizer: torch.optim.Optimizer, **named: Any) -> tuple[nn.Module, torch.optim.Optimizer]:
        """Attach, and have the optimizer's last step end the training where it is outside a loop over batches."""
        attached = self._attach(model, optimizer, **named)
        whole = optimizer.step

        def step(_: torch.optim.Optimizer, *given: Any, **rest: Any) -> Any:
            result = whole(*given, **rest)
            if not self.passes:
                self.look()
            if self.over and not self.passes:
                raise _Over
            return result

        mark_wrapped_by_scheduler(step)
        optimizer.step = MethodType(step, optimizer)  # type: ignore[method-assign]
        return attached


class _Batches:
    def __init__(self, whole: Any, limits: _Limits) -> None:
        self.whole = whole
        self.limits = limits

    def __len__(self) -> int:
        return len(self.whole)

    def __iter__(self) -> Iterator[Any]:
        limits = self.limits
        limits.passes += 1
        try:
            limits.look()
            for batch in self.whole:
                yield batch
                limits.look()
                if limits.over and not limits.limited.whole_epochs:
                    return
        finally:
            limits.passes -= 1
