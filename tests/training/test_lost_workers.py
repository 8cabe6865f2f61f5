"""Real processes, one of which is killed in the middle of its training: the others finish, and learn as well."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from toy import network

import polyrhythm as pr

EPOCHS, STEPS = 16, 240


def samples() -> tuple[torch.Tensor, torch.Tensor]:
    """So many that a quarter of them, which gossipgrad loses with their worker, is not missed."""
    x = torch.randn(480, 10, generator=torch.Generator().manual_seed(1))
    return x, x[:, :3].argmax(1)


class Train:
    """Trains `network()`; weight decay gives its loss an end. Worker 2 is killed after its step `killed`."""

    def __init__(self, killed: int) -> None:
        self.killed = killed

    def __call__(self, worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.2, weight_decay=0.05))
        for _ in range(EPOCHS):
            for x, y in worker.batches(samples(), batch_size=8):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                if worker.rank == 2 and worker.clock == self.killed:
                    os.kill(os.getpid(), signal.SIGKILL)


def loss(run: pr.Run) -> float:
    """Of the final weights, over all samples."""
    model, (x, y) = network(), samples()
    model.load_state_dict(run.weights)
    return F.cross_entropy(model(x), y).item()


OTHERS = ("gossipgrad", "hogwild", "strom", "gossiping-sgd")


@pytest.mark.parametrize("system", ["adpsgd", *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS)])
def test_the_others_finish_and_have_learned(system: str) -> None:
    """When messages come is chance here, and with it the last bits of what is learned: in virtual time the law is narrower."""
    torn = pr.run(Train(STEPS // 2), workers=4, strategy=system, on=pr.Processes(), seed=5)
    assert torn.summary.lost == ["worker/2"]
    assert loss(torn) < 0.6


@pytest.mark.parametrize(
    "system", ["adpsgd", *(pytest.param(name, marks=pytest.mark.long) for name in ("gossipgrad", "strom", "gossiping-sgd"))]
)
def test_in_virtual_time_the_others_finish_within_5_percent_of_the_undisturbed_loss(system: str) -> None:
    whole = pr.run(Train(0), workers=4, strategy=system, on=pr.Simulator(network="lan"), seed=5)
    half = pr.hardware.Crash("worker/2", at=whole.outcome.time / 2)
    torn = pr.run(Train(0), workers=4, strategy=system, on=pr.Simulator(network="lan", faults=(half,)), seed=5)
    assert torn.summary.lost == ["worker/2"]
    assert loss(torn) <= 1.05 * loss(whole)
