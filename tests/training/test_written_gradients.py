"""Gradients that a training function writes by hand, without a backward pass, are exchanged as those of autograd are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from kinds import fewest
from torch import Tensor, nn
from toy import SLOW

from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.training.run import run

from .scenes import EVERY_SYSTEM

X = torch.randn(64, 6, generator=torch.Generator().manual_seed(0))
Y = X[:, :2] - X[:, 2:4]


class Regression:
    """Linear regression for 8 steps; the gradient is written by `write`."""

    def __init__(self, write: Any) -> None:
        self.write = write

    def __call__(self, worker: Any) -> None:
        model = nn.Linear(6, 2)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.05))
        for _ in range(2):
            for x, y in worker.batches((X, Y), batch_size=4):
                optimizer.zero_grad()
                self.write(model, x, y)
                optimizer.step()


def backward(model: nn.Linear, x: Tensor, y: Tensor) -> None:
    F.mse_loss(model(x), y).backward()  # type: ignore[no-untyped-call]


def by_hand(model: nn.Linear, x: Tensor, y: Tensor) -> None:
    with torch.no_grad():
        wrong = (model(x) - y) * 2 / y.numel()
        model.weight.grad, model.bias.grad = wrong.T @ x, wrong.sum(dim=0)


def weights(write: Any, system: str, runtime: Any) -> dict[str, Tensor]:
    return dict(run(Regression(write), workers=3, strategy=system, on=runtime, seed=1).weights)


@pytest.mark.parametrize("system", fewest(EVERY_SYSTEM))
def test_every_system_trains_with_gradients_written_by_hand(system: str) -> None:
    one, other = (weights(write, system, Simulator(network=SLOW, seed=1)) for write in (backward, by_hand))
    assert all(torch.allclose(one[name], other[name], atol=1e-5) for name in one)


def test_gradients_written_by_hand_are_exchanged_by_real_processes() -> None:
    virtual, real = weights(by_hand, "allreduce", Simulator(network=SLOW)), weights(by_hand, "allreduce", Processes())
    assert all(torch.equal(virtual[name], real[name]) for name in virtual)
