"""What is sent does not pile up without end on lines that are too slow for it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import polyrhythm as pr
from polyrhythm.core.kernel.events import Stepped
from polyrhythm.hardware.network import Network

WORKERS, WIDTH, RATE = 4, 100, 1e6 / 8
NARROW = Network.uniform("narrow", "1 Mbit/s", "1 ms")
MODEL_BYTES = 4 * WIDTH * (WIDTH + 1)
UNAWAITED = [name for name in pr.systems.SYSTEMS if pr.systems.find(name).order_matters]


def train(worker: pr.Worker) -> None:
    """Steps of 0.1 ms, each of a model that takes a line 0.3 s."""
    x = torch.randn(256, WIDTH, generator=torch.Generator().manual_seed(0))
    model: Any = torch.nn.Linear(WIDTH, WIDTH)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.01))
    for (a,) in worker.batches((x,), batch_size=2):
        optimizer.zero_grad()
        model(a).square().mean().backward()
        optimizer.step()


@pytest.mark.parametrize("name", UNAWAITED)
def test_no_more_is_sent_than_lines_carry_and_a_few_models(name: str) -> None:
    run = pr.run(train, workers=WORKERS, strategy=name, on=pr.Simulator(NARROW, pr.hardware.Profile("fast", (1e-4,))))
    stepped = [event for event in run.outcome.events if isinstance(event, Stepped)]
    carried = WORKERS * RATE * max(event.time for event in stepped)
    assert max(event.bytes_sent for event in stepped) <= carried + 2 * WORKERS * MODEL_BYTES
