"""Wrapped optimizers are attached once, and their next step clips."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from toy import network

from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError
from polyrhythm.integrations.attached import attach, clip


def go(train: Any) -> None:
    run(train, workers=2, on=Simulator(network=Instant()))


def test_the_merged_gradient_is_clipped_once_and_the_own_norm_returned() -> None:
    def train(worker: Any) -> None:
        model = torch.nn.Linear(1, 1, bias=False)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        attach(worker, [network(), model], optimizer)
        attach(worker, [model], optimizer)
        worker.count(1)
        for norm in (0.5, None):
            before = model.weight.item()
            optimizer.zero_grad()
            (model.weight * (10.0 if worker.rank else -2.0)).sum().backward()
            if norm is not None:
                assert clip(worker, model.parameters(), norm).item() == (10.0 if worker.rank else 2.0)
                assert clip(worker, model.parameters(), float("inf")).item() == (10.0 if worker.rank else 2.0)
            optimizer.step()
            assert before - model.weight.item() == pytest.approx(norm or 4.0, rel=1e-5)  # the mean of both is 4

    go(train)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda worker, model: attach(worker, [network()], torch.optim.SGD(model.parameters())),
            "prepare the model and its optimizer together",
        ),
        (lambda worker, model: clip(worker, model.parameters(), 1.0, 1.0), "clipped by their Euclidean norm only: leave norm_type=1.0 out"),
        (lambda worker, model: clip(worker, model.parameters(), 1.0), "are not those of one attached optimizer"),
    ],
)
def test_what_cannot_be_clipped_or_attached_is_refused(call: Any, message: str) -> None:
    def train(worker: Any) -> None:
        model = network()
        model(torch.ones(1, 10)).sum().backward()
        call(worker, model)

    with pytest.raises(CompositionError, match=message):
        go(train)
