"""A loop whose samples do not come through the worker is warned of, since all workers may train on the same data."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils import data as tools
from toy import data, network

from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.training.run import run
from polyrhythm.errors import UnshardedWarning
from polyrhythm.tools.measuring.timing import simulate_timing

from .scenes import go, sgd


def stepping(before: Callable[[Any], None] = lambda worker: None) -> Callable[[Any], None]:
    """Steps with a loader of its own, over all data."""

    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model))
        for x, y in tools.DataLoader(tools.TensorDataset(*data()), batch_size=48):
            before(worker)
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()

    return train


@pytest.mark.parametrize("strategy", ["allreduce", "ssp", "sparknet", "gossipgrad"])
def test_training_on_the_same_data_everywhere_is_warned_of_once_at_the_line_that_steps(strategy: str) -> None:
    message = (
        r"all 3 workers may be training on the same data: iterate worker\.batches\(loader\).*worker\.sampler\(dataset\).*worker\.count"
    )
    with pytest.warns(UnshardedWarning, match=message) as caught:
        go(stepping(), strategy, workers=3)
    assert [warning.filename for warning in caught] == [__file__]


def test_one_worker_may_train_on_all_data() -> None:
    go(stepping(), workers=1)


ENOUGH: dict[str, Callable[[Any], None]] = {
    "counted": lambda worker: worker.count(48),
    "sampled": lambda worker: next(iter(worker.sampler(range(10)))),
    "in batches": lambda worker: next(iter(worker.batches(data()))),
    "a share": lambda worker: next(iter(worker.shard(range(10)))),
}


@pytest.mark.parametrize("way", ENOUGH)
def test_samples_that_come_through_the_worker_or_are_counted_are_enough(way: str) -> None:
    go(stepping(ENOUGH[way]), workers=2)


def test_steps_that_accumulate_gradients_or_share_a_batch_are_no_reason_to_warn() -> None:
    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model))
        for x, y in worker.batches(data(), batch_size=24):
            for _ in range(2):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()

    assert go(train, workers=2).summary.samples == 96


def test_counted_samples_are_on_record() -> None:
    assert go(stepping(lambda worker: worker.count(7)), workers=2).summary.samples == 2 * 2 * 7


def test_a_timing_only_run_counts() -> None:
    assert (
        simulate_timing(stepping(lambda worker: worker.count(7)), workers=3, strategy="allreduce", steps=2, on=Simulator()).summary.samples
        == 42
    )


def test_real_processes_warn_too(capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        run(stepping(), workers=2, on=Processes(), seed=1)
    assert capfd.readouterr().err.count("UnshardedWarning: optimizer.step() was called") == 1
