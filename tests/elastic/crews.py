"""Crews in virtual time whose steps take whole seconds on a network that takes none: what is measured is waiting for others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

import polyrhythm as pr
from polyrhythm.core.kernel.events import AnyEvent, Stepped
from polyrhythm.core.training.run import attempt
from polyrhythm.hardware import Fleet, Profile

QUICK = pr.Network.uniform("quick", "100 Gbit/s", "1 us")


def devices(*seconds: float) -> Fleet:
    """Devices on which a step takes so many seconds, one for each worker."""
    return Fleet(tuple(Profile(f"step-{each}", (each,)) for each in seconds))


def counting(steps: int) -> Callable[[pr.Worker], None]:
    """A training function each of whose steps adds 1 to all weights, so that after every step all replicas are to have their number."""

    def train(worker: pr.Worker) -> None:
        model = nn.Linear(3, 1, bias=False)
        nn.init.zeros_(model.weight)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=1.0))
        for _ in worker.range(steps):
            worker.count(1)
            optimizer.zero_grad()
            (-model.weight).sum().backward()
            optimizer.step()

    return train


def played(train: Callable[[pr.Worker], None], workers: int | pr.Crew, strategy: Any, **settings: Any) -> Any:
    """The outcome of a run, which has no error."""
    settings = {"network": QUICK, "devices": devices(1.0), "separate_randomness": False, **settings}
    done = attempt(train, workers=workers, strategy=strategy, on=pr.Simulator(**settings))
    if done.error is not None:
        raise done.error
    return done.outcome


def last_steps(events: Sequence[AnyEvent]) -> dict[str, float]:
    """When each worker has ended its last step."""
    return {event.actor: event.time for event in events if isinstance(event, Stepped)}
