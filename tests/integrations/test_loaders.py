"""A loader of the user's over one worker's share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, WeightedRandomSampler
from toy import network

from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.training.run import run
from polyrhythm.errors import DataError
from polyrhythm.integrations.loaders import shared


class Endless(IterableDataset[int]):
    """Numbers."""

    def __iter__(self) -> Any:
        return iter(range(9))


def dealt(make: Callable[[], DataLoader[Any]], workers: int = 2, epochs: int = 1, **options: Any) -> tuple[list[list[list[int]]], int]:
    """Each worker's batches, and the samples that were counted."""
    batches: dict[int, list[list[int]]] = {}

    def train(worker: Any) -> None:
        model = network()
        _, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        loader = shared(worker, make(), **options)
        batches[worker.rank] = [[int(each) for each in batch] for _ in range(epochs) for batch in loader]
        worker.count(0)
        model(torch.ones(1, 10)).sum().backward()
        optimizer.step()

    outcome = run(train, workers=workers, on=Simulator(network=Instant()), seed=3)
    return [batches[rank] for rank in range(workers)], outcome.summary.samples


def test_the_workers_batches_together_are_those_of_a_single_loader_and_count_once() -> None:
    (first, second), samples = dealt(lambda: DataLoader(range(10), batch_size=2))
    assert [sorted(a + b) for a, b in zip(first, second, strict=True)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert samples == 10


def test_a_part_of_each_batch_where_batches_are_those_of_all_workers_and_nothing_is_counted() -> None:
    (first, second), samples = dealt(lambda: DataLoader(range(12), batch_size=4, drop_last=True), split=2, counts=False)
    assert [sorted(a + b) for a, b in zip(first, second, strict=True)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert samples == 0


def test_every_epoch_is_drawn_anew_for_all_together() -> None:
    (first, second), _ = dealt(lambda: DataLoader(range(8), batch_size=4, shuffle=True), epochs=2)
    assert [sorted(a + b) for a, b in zip(first, second, strict=True)] == [list(range(8))] * 2
    assert first[0] != first[1]


def test_a_weighted_choice_is_the_same_for_all() -> None:
    weights = [0.0] * 7 + [1.0]
    (first, second), _ = dealt(lambda: DataLoader(range(8), batch_size=2, sampler=WeightedRandomSampler(weights, 8)))
    assert first == second == [[7, 7], [7, 7]]


def test_elements_that_are_batches_stay_whole() -> None:
    (first, second), _ = dealt(lambda: DataLoader(torch.arange(8).view(4, 2), batch_size=None))
    assert (first, second) == ([[0, 1], [4, 5]], [[2, 3], [6, 7]])


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (lambda: DataLoader(Endless()), {}, r"over an IterableDataset.*worker.shard\(dataset\)"),
        (
            lambda: DataLoader(range(8), batch_size=3),
            {"split": 2},
            "Batches of 3 samples cannot be split over 2 workers: give a multiple of 2",
        ),
    ],
)
def test_what_cannot_be_shared_out_is_refused(make: Any, options: dict[str, int], message: str) -> None:
    with pytest.raises(DataError, match=message):
        dealt(make, **options)
