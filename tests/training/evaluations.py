"""What the tests of evaluations train, and how they judge it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from toy import data, network

from polyrhythm.core.kernel.events import Evaluated
from polyrhythm.core.training.result import Run


def score(model: nn.Module) -> dict[str, float]:
    x, y = data()
    return {"loss": F.cross_entropy(model(x), y).item()}


def fickle() -> nn.Module:
    """A model with statistics that change in training, one that is frozen, a counter, and a layer that draws random numbers."""
    return nn.Sequential(nn.Linear(10, 12), nn.BatchNorm1d(12), nn.Dropout(0.2), nn.Linear(12, 3), nn.BatchNorm1d(3, affine=False).eval())


def trains(
    function: Callable[..., Any] | None = score, epochs: int = 4, report: bool = False, build: Callable[[], nn.Module] = network
) -> Callable[[Any], None]:
    """The usual loop; `function` evaluates its result."""

    def train(worker: Any) -> None:
        model = build()
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        if function is not None:
            worker.evaluate(function)
        for _ in range(epochs):
            for x, y in worker.batches(data(), batch_size=8):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                if report:
                    worker.report(loss=score(model)["loss"])

    return train


def evaluations(outcome: Run) -> list[Evaluated]:
    return [event for event in outcome.outcome.events if isinstance(event, Evaluated)]
