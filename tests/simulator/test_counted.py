"""The operations that a step takes virtual time for: those of the worker's own work and of responses, and none of the library's looks."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import polyrhythm as pr
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.factors import Factors
from polyrhythm.core.protocols.merge import AnyContribution, Direction
from polyrhythm.core.protocols.traits import DIFFERENCES, MergeTraits
from polyrhythm.errors import PolyrhythmError

X = torch.randn(48, 10, generator=torch.Generator().manual_seed(1))
Y = X[:, :3].argmax(1)
STEPS = 3


def training(make: Callable[[Any], torch.optim.Optimizer], clip_norm: float | None = None) -> Callable[[pr.Worker], None]:
    def train(worker: pr.Worker) -> None:
        model = nn.Sequential(nn.Linear(10, 64, bias=False), nn.Tanh(), nn.Linear(64, 3, bias=False))
        model, optimizer = worker.attach(model, make(model.parameters()), clip_norm=clip_norm)
        for _, (x, y) in zip(range(STEPS), worker.batches((X, Y), batch_size=4), strict=False):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

    return train


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1)


def seconds(strategy: pr.Strategy, train: Callable[[pr.Worker], None]) -> float:
    taken = pr.run(train, workers=3, strategy=strategy, on=pr.Simulator(network="lan"), seed=5).summary.virtual_seconds
    assert taken is not None
    return taken


@dataclass(frozen=True)
class Multiplying:
    """A mean that also multiplies two matrices of `size` rows."""

    size: int
    traits: ClassVar = MergeTraits(DIFFERENCES)
    rule: ClassVar[None] = None

    def combine(self, contributions: Sequence[AnyContribution], context: ExchangeContext) -> Direction:
        torch.ones(self.size, self.size) @ torch.ones(self.size, self.size)
        return pr.merge.Mean().combine(contributions, context)


class MultiplyingSGD(torch.optim.SGD):
    """Steps that multiply two matrices of `size` rows."""

    size = 0

    def step(self, closure: Any = None) -> Any:  # type: ignore[override]
        torch.ones(self.size, self.size) @ torch.ones(self.size, self.size)
        return super().step(closure)


def test_products_in_a_merge_at_workers_take_virtual_time() -> None:
    more, less = (seconds(pr.Strategy(topology=pr.topology.AllToAll(), merge=Multiplying(size)), training(sgd)) for size in (300, 0))
    assert more > less


def test_products_of_the_users_optimizer_take_virtual_time_in_every_payload() -> None:
    strategies = {
        "gradients": pr.Strategy(),
        "updates": pr.systems.find("sparknet", period=1),
        "weights": pr.systems.find("gossipgrad"),
        "shared": pr.systems.find("hogwild"),
    }
    for name, strategy in strategies.items():
        taken = []
        for size in (300, 0):
            MultiplyingSGD.size = size
            taken.append(seconds(strategy, training(lambda parameters: MultiplyingSGD(parameters, lr=0.1))))
        assert taken[0] > taken[1], name


def test_products_in_a_constraint_take_virtual_time_and_an_error_there_leaves_the_count_as_it_was() -> None:
    def constrained(size: int) -> Callable[[pr.Worker], None]:
        def train(worker: pr.Worker) -> None:
            model = nn.Linear(10, 3)
            model, optimizer = worker.attach(model, sgd(model.parameters()))
            worker.constrain(lambda _: torch.ones(size, size) @ torch.ones(size, size))
            for x, y in worker.batches((X, Y), batch_size=8):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()

        return train

    less = seconds(pr.Strategy(), constrained(0))
    with pytest.raises(PolyrhythmError):
        seconds(pr.Strategy(), constrained(-1))
    assert seconds(pr.Strategy(), constrained(0)) == less < seconds(pr.Strategy(), constrained(300))


def test_a_value_that_leaves_after_the_optimizers_products_starts_after_them() -> None:
    # weights of a clipped step leave in optimizer.step(), tensor by tensor: those of a later one come after more products
    strategy = pr.Strategy(consistency=pr.consistency.LocalSteps(1), topology=pr.topology.Deferred(pr.topology.Gossip()))
    train = training(lambda parameters: torch.optim.Muon(parameters, lr=0.02), clip_norm=1.0)
    done = pr.run(train, workers=3, strategy=strategy, on=pr.Simulator(network="lan", seed=2), seed=5)
    assert done.summary.virtual_seconds == pytest.approx(LATER, rel=1e-6)


LATER = 0.00184033533
"""Seconds as they were when every operation of a step was counted."""


def test_factors_are_dropped_when_they_were_exchanged() -> None:
    alive: list[int] = []

    def train(worker: pr.Worker) -> None:
        model = nn.Linear(10, 3)
        model, optimizer = worker.attach(model, sgd(model.parameters()))
        for x, y in worker.batches((X, Y), batch_size=8):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            if not worker.rank:
                alive.append(sum(type(each) is Factors for each in gc.get_objects()))

    pr.run(train, workers=2, strategy=pr.Strategy(codec=pr.codec.SufficientFactors()), on=pr.Simulator(network="lan"), seed=5)
    assert max(alive) <= 1  # those of the other worker, which may be in its exchange
