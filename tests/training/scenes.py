"""Small training functions for the tests of what the user holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils import data as tools
from toy import data, network

from polyrhythm import systems
from polyrhythm.core.simulator.simulator import Instant, Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.result import Run
from polyrhythm.core.training.run import run
from polyrhythm.topology import Server

EVERY_SYSTEM = tuple(systems.SYSTEMS)
ONE_BACKWARD = ("powersgd", "byteps", "mxnet-worker-update", "collective-allreduce", "horovod", "bitvector")
"""Those that exchange gradients during backward(), of which there is one to each step."""
IN_CYCLES = ("horovod", "bitvector")
"""Those that negotiate in cycles of a millisecond: how many there are, and so how many bytes, depends on when gradients come,
as test_runtimes.py asserts of them and of no other."""
LOCKSTEP_SERVER = Strategy(topology=Server(2))
"""The user's optimizer is built again at two servers, and the result must be that of all-reduce."""

Train = Callable[[Any], object]


class Counting(tools.IterableDataset[Any]):
    """The numbers below `length`; in several loading processes each takes its part, as torch recommends."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __iter__(self) -> Iterator[int]:
        here = tools.get_worker_info()
        return iter(range(self.length) if here is None else range(here.id, self.length, here.num_workers))


def go(train: Train, strategy: str | Strategy = "allreduce", workers: int = 2, seed: int = 5, **options: Any) -> Run:
    """The run of `train` in virtual time, without a network."""
    return run(train, workers=workers, strategy=strategy, on=Simulator(network=Instant()), seed=seed, **options)


def flat(outcome: Run) -> Tensor:
    """All final weights in one vector."""
    return torch.cat([tensor.reshape(-1) for tensor in outcome.weights.values()])


def loop(worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer, epochs: int = 1, size: int = 8) -> None:
    """The usual loop, after attaching."""
    dtype = next(model.parameters()).dtype
    for _ in range(epochs):
        for x, y in worker.batches(data(), batch_size=size):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x.to(dtype)), y)
            loss.backward()
            optimizer.step()
        worker.report(loss=loss)


def trains(make: Callable[[nn.Module], torch.optim.Optimizer], build: Callable[[], nn.Module] = network, epochs: int = 1) -> Train:
    """A training function with a model and an optimizer of one's choice."""

    def train(worker: Any) -> None:
        model = build()
        model, optimizer = worker.attach(model, make(model))
        loop(worker, model, optimizer, epochs)

    return train


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    """Plain SGD."""
    return torch.optim.SGD(model.parameters(), lr=0.1)


def seen(make: Callable[[], Any], epochs: int = 1, workers: int = 1, strategy: Any = "allreduce", size: int | None = 8) -> list[list[Any]]:
    """The batches of worker 0 by epoch, of `make()` anew in every epoch."""
    return dealt(make, epochs, workers, strategy, size)[0]


def dealt(
    make: Callable[[], Any], epochs: int = 1, workers: int = 1, strategy: Any = "allreduce", size: int | None = 8
) -> list[list[list[Any]]]:
    """By worker and epoch: the batches."""
    batches: list[list[list[Any]]] = [[] for _ in range(workers)]

    def train(worker: Any) -> None:
        model = network()
        worker.attach(model, sgd(model))
        for _ in range(epochs):
            batches[worker.rank].append(list(worker.batches(make(), batch_size=size)))

    go(train, strategy, workers)
    return batches
