"""A small training function whose every detail a test can choose, and the plain loop that it must equal."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyrhythm.core.kernel.job import Runtime
from polyrhythm.core.simulator.simulator import Instant, Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.result import Run
from polyrhythm.core.training.run import run
from polyrhythm.hardware.network import Network

SAMPLES = 96


@functools.cache
def data() -> tuple[Tensor, Tensor]:
    """A small classification problem."""
    x = torch.randn(SAMPLES, 10, generator=torch.Generator().manual_seed(1))
    return x, x[:, :3].argmax(1)


def network() -> nn.Module:
    """A small model with matrices and vectors."""
    return nn.Sequential(nn.Linear(10, 12), nn.Tanh(), nn.Linear(12, 3))


@dataclass(frozen=True)
class Toy:
    """Trains `network()` for `epochs` with the optimizer that `make` builds."""

    make: Callable[[Any], torch.optim.Optimizer] = lambda parameters: torch.optim.SGD(parameters, lr=0.1)
    epochs: int = 2
    batch_size: int = 8
    clip_norm: float | None = None

    def __call__(self, worker: Any) -> None:
        model = network()
        optimizer = self.make(model.parameters())
        model, optimizer = worker.attach(model, optimizer, clip_norm=self.clip_norm)
        for _ in range(self.epochs):
            for x, y in worker.batches(data(), batch_size=self.batch_size):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
            worker.report(loss=loss.item())


def trained(toy: Toy, workers: int, strategy: str | Strategy, on: Runtime | None = None, seed: int = 5) -> Run:
    """The run of `toy`, by default in virtual time without a network."""
    return run(toy, workers=workers, strategy=strategy, on=on or Simulator(network=Instant()), seed=seed)


def weights(toy: Toy, workers: int, strategy: str | Strategy, on: Runtime | None = None, seed: int = 5) -> Tensor:
    """All final weights in one vector."""
    return torch.cat([tensor.reshape(-1) for tensor in trained(toy, workers, strategy, on, seed).weights.values()])


SLOW = Network.uniform("slow", "50 Mbit/s", "20 ms")


def remaining(done: Run) -> float:
    """The loss of the run's weights over all data. A worker's last report is of one batch, amid the changes of others."""
    model = network()
    model.load_state_dict(done.weights)
    x, y = data()
    return F.cross_entropy(model(x), y).item()
