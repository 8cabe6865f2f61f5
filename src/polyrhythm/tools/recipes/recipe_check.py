"""Checks a training function against the recipe for many workers, in a few of its steps in virtual time."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from torch import nn

from polyrhythm import systems
from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.kernel.events import AnyEvent, Stepped
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.core.tensors import digest
from polyrhythm.core.training.run import attempt
from polyrhythm.core.training.work import Train
from polyrhythm.core.training.worker import Worker
from polyrhythm.errors import PolyrhythmError, UnshardedWarning
from polyrhythm.tools.recipes.recipe import model_findings, momentum_findings, rate_findings
from polyrhythm.tools.recipes.saved_files import redirected

_BATCHES, _STEPS = 2, 40
"""Of each epoch, and of the whole run."""
_RANK: ContextVar[int] = ContextVar("rank")


@dataclass(slots=True)
class Seen:
    """The record of a training function: worker 0's learning rate at each step; by rank, a file and the weights at the first
    forward pass.
    """

    rates: list[float] = field(default_factory=list)
    savers: dict[int, str] = field(default_factory=dict)
    weights: dict[int, str] = field(default_factory=dict)
    found: list[str] = field(default_factory=list)
    sharded: bool = True


class _SeenEnoughError(PolyrhythmError):
    """Ends the observed run."""


def check_recipe(train: Train, strategy: str | Strategy, workers: int = 2, seed: int = 0) -> list[str]:
    """Run the first steps of `train` at one worker and at `workers`, in virtual time; what is missing, as sentences that say what to do.

    As `lint_recipe`, and: whether the training function multiplies its learning rate for several workers, gives all of them the weights of
    worker 0, writes files at worker 0 alone, and gives each worker other samples. Epochs end after two batches; what torch.save is to
    write to a path goes to a temporary directory, from which torch.load reads it. Raises what the training function raises.
    """
    chosen, workers = systems.resolve(strategy), Crew.of(workers).number("A check")
    alone, together = _see(train, systems.find("single"), 1, seed), _see(train, chosen, workers, seed)
    highest = [max(seen.rates, default=0.0) for seen in (alone, together)]
    ratio = highest[1] / highest[0] if highest[0] else 1.0
    apart = _weights_findings(together)  # such a run has ended before its rates could rise
    return [
        *([] if apart else rate_findings(chosen, chosen.workers(workers), ratio, warms_up=together.rates[:1] < highest[1:])),
        *together.found,
        *apart,
        *_file_findings(together),
        *_sample_findings(together),
    ]


def _weights_findings(seen: Seen) -> list[str]:
    first = seen.weights.get(0)
    others = [f"worker/{rank}" for rank, weights in sorted(seen.weights.items()) if first not in {None, weights}]
    if not others:
        return []
    return [
        f"{others[0]} begins with other weights than worker/0: worker.attach broadcasts those of worker/0, and they were changed after it, "
        "so initialize and load weights before attaching."
    ]


def _file_findings(seen: Seen) -> list[str]:
    others = [(rank, where) for rank, where in sorted(seen.savers.items()) if rank]
    if not others:
        return []
    rank, file = others[0]
    return [
        f"worker/{rank} writes {file} with torch.save, as every worker would: write it `if worker.rank == 0`, or have checkpoints written "
        "by --checkpoint, from which all can resume."
    ]


def _sample_findings(seen: Seen) -> list[str]:
    if seen.sharded:
        return []
    return ["All workers train on the same samples: take them from worker.batches(...), or a sampler from worker.sampler(...)."]


def _see(train: Train, strategy: Strategy, workers: int, seed: int) -> Seen:
    seen = Seen()
    held: list[torch.optim.Optimizer] = []

    def watched(worker: Worker) -> None:
        _RANK.set(worker.rank)
        _observe(worker, seen, held)
        train(worker)

    def note(file: str) -> None:
        seen.savers.setdefault(_RANK.get(0), file)

    def watch(event: AnyEvent) -> None:
        if isinstance(event, Stepped) and event.actor == "worker/0":
            seen.rates.append(float(held[0].param_groups[0]["lr"]))
            if len(seen.rates) == _STEPS:
                raise _SeenEnoughError

    with warnings.catch_warnings(record=True) as caught, redirected(note):
        warnings.simplefilter("always")
        tried = attempt(watched, workers=workers, strategy=strategy, on=Simulator(network=Instant()), seed=seed, watch=watch)
    if held:
        seen.found += momentum_findings(strategy, held[0], strategy.workers(workers))
    seen.sharded = not any(issubclass(each.category, UnshardedWarning) for each in caught)
    expected = isinstance(tried.error, _SeenEnoughError) or _weights_findings(seen)  # replicas that begin apart end apart
    if tried.error is not None and not expected:
        raise tried.error
    return seen


def _observe(worker: Any, seen: Seen, held: list[torch.optim.Optimizer]) -> None:
    """Have `worker` note what is attached, and end its epochs after a few batches."""
    attach, batches = worker.attach, worker.batches

    def attaching(model: nn.Module, optimizer: torch.optim.Optimizer, **options: Any) -> Any:
        if worker.rank == 0:
            held.append(optimizer)
            seen.found += model_findings(model, optimizer)
        attached = attach(model, optimizer, **options)

        def first(module: nn.Module, _: Any) -> None:
            hook.remove()
            if module.training and worker.clock == 0:
                seen.weights[worker.rank] = digest(module.state_dict().items())

        hook = model.register_forward_pre_hook(first)
        return attached

    worker.attach = attaching
    worker.batches = lambda *given, **options: _Few(batches(*given, **options))


class _Few:
    """The first batches of each epoch; else as the worker's."""

    def __init__(self, batches: Any) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        return islice(iter(self._batches), _BATCHES)

    def __len__(self) -> int:
        return min(_BATCHES, len(self._batches))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batches, name)
