"""The planner's runs are computed side by side, and one by one where that is not possible."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import polyrhythm as pr
from polyrhythm.core.kernel.job import Runtime
from polyrhythm.core.simulator import OneByOne, SideBySide, Simulator
from polyrhythm.core.training.run import Attempt, attempt
from polyrhythm.systems import find
from polyrhythm.tools.pools.side_by_side import or_one_by_one

SAMPLES = torch.linspace(-1, 1, 64).view(-1, 1)


def changing(worker: Any) -> None:
    model = torch.nn.Linear(1, 1)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for (x,) in worker.batches((SAMPLES,), batch_size=4):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), 2 * x)
        loss.backward()
        if worker.clock > 3:
            worker.mean(loss)
        optimizer.step()


@pytest.mark.parametrize("workers", [2, 3])
def test_a_run_whose_steps_change_is_made_again_one_by_one_and_its_record_says_why(workers: int) -> None:
    def make(on: Runtime) -> Attempt:
        return attempt(changing, workers=workers, strategy=find("allreduce"), on=on, seed=1)

    fast = or_one_by_one(Simulator(gradients=SideBySide(threads=1)), make)
    slow = or_one_by_one(Simulator(gradients=OneByOne()), make)
    assert fast.error is None
    assert fast.outcome.summary == slow.outcome.summary
    assert "one by one: The training function of worker/" in fast.outcome.settings["gradients"]
    assert "gradients" not in slow.outcome.settings


def test_a_plan_says_that_gradients_were_computed_at_once() -> None:
    def train(worker: Any, epochs: int = 4, learning_rate: float = 0.1, batch_size: int = 8) -> None:
        model = torch.nn.Linear(1, 1)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=learning_rate))
        worker.evaluate(lambda found: {"loss": (found(SAMPLES) - 2 * SAMPLES).square().mean().item()})
        for _ in range(epochs):
            for (x,) in worker.batches((SAMPLES,), batch_size=batch_size):
                optimizer.zero_grad()
                (model(x) - 2 * x).square().mean().backward()
                optimizer.step()

    plan = pr.plan(train, "loss=0.1", network="slow", workers=(2,), systems=["allreduce"], budget=20)
    assert "Gradients of several workers were computed at once" in pr.plan_text(plan)
