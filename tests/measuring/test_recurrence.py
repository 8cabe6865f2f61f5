"""When a strategy's messages come again: asked of its pieces, and seen in what all systems send."""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

from polyrhythm.codec import Identity, TopK, TopKWarmup, Warmup
from polyrhythm.consistency import BulkSynchronous, Intervals, LocalSteps
from polyrhythm.consistency.schedules import Every, Switched
from polyrhythm.core.kernel.events import Stepped
from polyrhythm.core.protocols.recurrence import Recurrence
from polyrhythm.core.simulator import OneByOne, Simulator
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.core.training.worker import Worker
from polyrhythm.systems import SYSTEMS, find
from polyrhythm.tools.measuring.recurrence import exchange_interval, recurrence_of
from polyrhythm.tools.measuring.replay import StepShape
from polyrhythm.tools.measuring.timing import shape_of, time_shape
from polyrhythm.topology import Server

WORKERS = 4
_NEAR = 0.1
"""What arrives in another order at other times changes single reads."""


def _train(worker: Worker) -> None:
    model = nn.Sequential(nn.Linear(11, 37), nn.ReLU(), nn.Linear(37, 5))
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    data = TensorDataset(torch.randn(256, 11), torch.randint(0, 5, (256,)))
    for x, y in worker.batches(data, batch_size=8):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


@lru_cache(1)
def _shape() -> StepShape:
    return shape_of(_train)


def _sent(strategy: Strategy, steps: int) -> dict[str, dict[int, int]]:
    """What each worker has sent until the end of each of its steps."""
    found: dict[str, dict[int, int]] = defaultdict(dict)
    run = time_shape(_shape(), workers=WORKERS, strategy=strategy, steps=steps, on=Simulator(gradients=OneByOne()))
    for event in run.outcome.events:
        if isinstance(event, Stepped):
            found[event.actor][event.clock] = event.bytes_sent
    return found


def _between(sent: dict[str, dict[int, int]], first: int, last: int) -> float:
    return sum(each[last] - each[first] for each in sent.values()) / (last - first)


@pytest.mark.parametrize("system", [name for name in SYSTEMS if not find(name).chooses])
def test_what_a_period_after_the_beginning_sends_is_what_later_ones_send(system: str) -> None:
    strategy = find(system)
    found = recurrence_of(strategy, WORKERS)
    period = found.period * -(-4 // found.period)
    first = max(1, found.beginning) + period
    last = first + period * (2 if period > 40 else 4)
    sent = _sent(strategy, last + 1)
    later = _between(sent, first + period, last)
    assert _between(sent, first, first + period) == pytest.approx(later, rel=_NEAR)


@pytest.mark.parametrize("system", ["dgc", "onebit", "onebit-adam", "powersgd", "post-local-sgd"])
def test_a_beginning_lasts_no_longer_than_it_must(system: str) -> None:
    strategy = find(system)
    found = recurrence_of(strategy, WORKERS)
    sent = _sent(strategy, found.beginning + 4 * found.period + 1)
    usual = _between(sent, found.beginning + found.period, found.beginning + 3 * found.period)
    last = _between(sent, found.beginning - 2, found.beginning)
    assert last > 1.02 * usual


def test_intervals_between_exchanges_are_read_off_whatever_they_are_called() -> None:
    assert recurrence_of(find("downpour", push_period=3, fetch_period=4), WORKERS) == Recurrence(period=12)
    assert recurrence_of(find("post-local-sgd", synchronous=30, period=6), WORKERS) == Recurrence(29, 6)
    assert recurrence_of(find("diloco", period=500), WORKERS).period == 500
    assert recurrence_of(find("local-sgd", period=3000), WORKERS).period == 3000
    assert recurrence_of(Strategy(consistency=LocalSteps(Every(7, offset=2))), WORKERS) == Recurrence(period=7)
    assert recurrence_of(Strategy(consistency=Intervals(2, 3), topology=Server()), WORKERS) == Recurrence(period=6)


def test_values_of_a_codec_are_counted_in_steps_of_the_worker() -> None:
    warming = Strategy(consistency=LocalSteps(20), codec=Warmup(10, TopK(0.1)))
    assert recurrence_of(warming, WORKERS) == Recurrence(200, 20)
    assert recurrence_of(Strategy(consistency=BulkSynchronous(), codec=Warmup(10, TopKWarmup((0.5, 0.1), 3))), WORKERS) == Recurrence(13)
    assert recurrence_of(find("powersgd-plus", warmup=10, refresh_period=50), WORKERS) == Recurrence(10, 50)


def test_a_worker_that_may_be_ahead_reads_when_it_must() -> None:
    assert recurrence_of(find("ssp", slack=3), WORKERS).period == 4
    assert recurrence_of(find("ssp", slack=0), WORKERS).period == 1


def test_the_interval_between_exchanges_is_that_of_exchanges_alone() -> None:
    assert exchange_interval(find("powersgd-plus"), WORKERS) == 1
    assert exchange_interval(find("post-local-sgd", synchronous=20, period=8), WORKERS) == 8
    assert exchange_interval(Strategy(consistency=LocalSteps(Switched(0, 5)), codec=Identity()), WORKERS) == 5
