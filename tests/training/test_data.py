"""What a user may give to `worker.batches`, and what comes back."""

from __future__ import annotations

import gc
import multiprocessing
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils import data as tools
from toy import data, network

from polyrhythm.core.processes import Processes
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.run import run
from polyrhythm.errors import DataError
from polyrhythm.shuffle import RingShuffle

from .scenes import flat, go, loop, seen, sgd, trains


class Pairs(tools.Dataset[Any]):
    """A map-style data set of one's own."""

    def __len__(self) -> int:
        return len(data()[0])

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return data()[0][index], data()[1][index]


class Named(Pairs):
    """Its samples are dicts, as those of Hugging Face are."""

    def __getitem__(self, index: int) -> Any:
        x, y = super().__getitem__(index)
        return {"x": x, "y": y}


class Ordered(tools.IterableDataset[Any]):
    """Has no length and no index."""

    def __iter__(self) -> Iterator[Any]:
        return iter(zip(*data(), strict=True))


def shared_by(dataset: Any, shuffle: bool) -> Any:
    return tools.DistributedSampler(dataset, num_replicas=3, rank=1, shuffle=shuffle)


SHUFFLED = {
    "tuple": data,
    "list": lambda: list(data()),
    "arrays": lambda: tuple(part.numpy() for part in data()),
    "dict": lambda: dict(zip("xy", data(), strict=True)),
    "tensors": lambda: tools.TensorDataset(*data()),
    "dataset": Pairs,
    "samples": lambda: list(zip(*data(), strict=True)),
    "dicts": Named,
    "subset": lambda: tools.Subset(Pairs(), range(96)),
    "loader": lambda: tools.DataLoader(Pairs(), batch_size=3, shuffle=True),
    "loader of tensors": lambda: tools.DataLoader(tools.TensorDataset(*data()), shuffle=True),
    "loader of a subset": lambda: tools.DataLoader(tools.Subset(Pairs(), range(96)), shuffle=True),
    "loader for ranks": lambda: tools.DataLoader(Pairs(), sampler=shared_by(Pairs(), shuffle=True)),
    "loader with processes": lambda: tools.DataLoader(Pairs(), batch_size=8, shuffle=True, num_workers=2),
    "loader with a seed": lambda: tools.DataLoader(Pairs(), shuffle=True, generator=torch.Generator().manual_seed(8)),
}
ORDERED = {
    "loader": lambda: tools.DataLoader(Pairs()),
    "loader with processes": lambda: tools.DataLoader(Pairs(), num_workers=2),
    "loader for ranks": lambda: tools.DataLoader(Pairs(), sampler=shared_by(Pairs(), shuffle=False)),
    "loader with a list": lambda: tools.DataLoader(Pairs(), sampler=list(range(96))),
    "batch sampler": lambda: tools.DataLoader(Pairs(), batch_sampler=tools.BatchSampler(range(96), 4, drop_last=False)),
    "iterable": Ordered,
    "loader of an iterable": lambda: tools.DataLoader(Ordered(), batch_size=5),
    "loader of an iterable with a process": lambda: tools.DataLoader(Ordered(), batch_size=5, num_workers=1),
    "iterator": lambda: zip(*data(), strict=True),
    "generator": lambda: ((x, y) for x, y in zip(*data(), strict=True)),
}


def given(make: Any) -> Any:
    """Trains on one form of the data."""

    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model))
        for batch in worker.batches(make(), batch_size=8):
            x, y = (batch["x"], batch["y"]) if isinstance(batch, dict) else batch
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()

    return train


@pytest.mark.parametrize("form", SHUFFLED)
def test_every_form_of_the_same_data_trains_the_same_model(form: str) -> None:
    outcome = go(given(SHUFFLED[form]), workers=3)
    assert torch.equal(flat(outcome), flat(go(trains(sgd), workers=3)))
    assert outcome.summary.samples == 96


@pytest.mark.parametrize("form", ORDERED)
def test_every_form_of_data_with_an_order_is_dealt_out_in_that_order(form: str) -> None:
    """Three workers with batches of 8 see in each step what one with a batch of 24 does."""
    outcome, plain = go(given(ORDERED[form]), workers=3), network_after(*data(), size=24)
    torch.testing.assert_close(flat(outcome), plain, rtol=1e-5, atol=1e-6)
    assert outcome.summary.samples == 96


def network_after(x: Tensor, y: Tensor, size: int) -> Tensor:
    """What a plain loop makes of the run's initial weights in one epoch without shuffling."""
    weights: list[Tensor] = []

    def train(worker: Any) -> None:
        model = network()
        optimizer = sgd(model)
        for begin in range(0, len(x), size):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x[begin : begin + size]), y[begin : begin + size]).backward()
            optimizer.step()
        weights.append(torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()]))
        worker.attach(model, optimizer)

    go(train, workers=1)
    return weights[0]


@pytest.mark.parametrize("form", ["loader with processes", "loader of an iterable with a process"])
def test_both_runtimes_load_the_same_batches_in_processes_and_leave_none_behind(form: str) -> None:
    train = given({**ORDERED, **SHUFFLED}[form])
    virtual = go(train, workers=2).summary
    real = run(train, workers=2, on=Processes(), seed=5).summary
    assert (real.weights_sha256, real.samples) == (virtual.weights_sha256, virtual.samples)
    assert not multiprocessing.active_children()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: {"a": 1, "b": 2}, r"dict has no __len__ or no __getitem__.*give a map-style Dataset or tensors"),
        (lambda: {1, 2, 3}, r"set has no __len__ or no __getitem__"),
        (list, r"The data set is empty"),
        (lambda: (torch.zeros(4), torch.zeros(5)), r"lengths \[4, 5\]: give tensors with one entry per sample each"),
        (lambda: (torch.zeros(()), torch.zeros(())), r"The data set is empty"),
    ],
)  # fmt: skip
def test_data_that_cannot_be_shared_out_are_refused_with_a_remedy(make: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        seen(make)


def test_too_few_samples_for_the_workers_are_refused() -> None:
    with pytest.raises(DataError, match=r"3 samples cannot be sharded over 4 workers: use at most 3 workers, or more data"):
        seen(lambda: (torch.zeros(3, 10),), workers=4)


def test_a_length_draws_nothing_and_each_iteration_is_an_epoch_of_its_own() -> None:
    def train(worker: Any) -> None:
        model = network()
        worker.attach(model, sgd(model))
        if worker.rank == 0:
            before = torch.get_rng_state()
            unused = worker.batches(data(), batch_size=8)
            assert len(unused) == 6
            assert torch.equal(torch.get_rng_state(), before)
        batches = worker.batches(data(), batch_size=8)
        assert len(list(batches)) == len(batches) == 6
        epochs.append([list(batches), list(batches)])

    epochs: list[Any] = []
    go(train, workers=2)
    assert len({str(epoch) for epoch in epochs[0]}) == 2
    (first, _), (second, _) = epochs  # both have iterated once before, also where a length was requested
    assert not rows(first) & rows(second)


def rows(epoch: Any) -> set[tuple[float, ...]]:
    return {tuple(row.tolist()) for x, _ in epoch for row in x}


def test_without_a_size_a_batch_has_32_samples() -> None:
    [batches] = seen(data, size=None)
    assert [len(x) for x, _ in batches] == [32, 32, 32]


def anew() -> Any:
    return tuple(part.clone() for part in data())


@pytest.mark.parametrize(
    ("strategy", "make", "epochs"),
    [("allreduce", data, 4), ("allreduce", anew, 4), ("allreduce", Pairs, 4), ("gossipgrad", anew, 4), ("gossipgrad", data, 2)],
)
def test_every_epoch_comes_in_a_new_order_whether_data_are_made_anew_or_kept(strategy: str, make: Any, epochs: int) -> None:
    assert len({str(epoch) for epoch in seen(make, epochs, workers=2, strategy=strategy)}) == epochs


def test_wrapping_the_same_tensors_anew_lets_their_samples_travel_on() -> None:
    dealt = seen(lambda: tools.TensorDataset(*data()), epochs=2, workers=2, strategy=Strategy(shuffle=RingShuffle()), size=48)
    first, second = (rows(epoch) for epoch in dealt)
    assert not first & second
    assert len(first | second) == 96


@pytest.mark.parametrize("strategy", ["allreduce", "gossipgrad"])
def test_two_loaders_over_parts_of_one_data_set_keep_to_their_parts(strategy: str) -> None:
    dataset = tools.TensorDataset(torch.arange(96.0))
    halves = [tools.SubsetRandomSampler(range(48)), tools.SubsetRandomSampler(range(48, 96)), list(range(48)), list(range(48, 96))]
    loaders = iter([tools.DataLoader(dataset, sampler=half) for _ in range(2) for half in halves])
    for k, epoch in enumerate(seen(lambda: next(loaders), epochs=8, strategy=strategy)):
        assert sorted(int(number) for (part,) in epoch for number in part) == list(halves[2 + k % 2])


@pytest.mark.parametrize("strategy", ["allreduce", "gossipgrad"])
def test_data_that_are_made_anew_every_epoch_do_not_pile_up(strategy: str) -> None:
    made: list[weakref.ref[Tensor]] = []

    def train(worker: Any) -> None:
        model = network()
        worker.attach(model, sgd(model))
        for _ in range(30):
            x = data()[0].clone()
            made.append(weakref.ref(x))
            for _batch in worker.batches((x,), batch_size=48):
                pass
        del x
        gc.collect()
        assert sum(ref() is not None for ref in made) <= 8

    go(train, strategy, 1)


def test_samples_travel_on_whatever_else_is_made_anew_in_every_epoch() -> None:
    epochs: list[set[tuple[float, ...]]] = []

    def train(worker: Any) -> None:
        model = network()
        worker.attach(model, sgd(model))
        for _ in range(24):
            mine = rows(worker.batches(data(), batch_size=8))
            if worker.rank == 0:
                epochs.append(mine)
            for _batch in worker.batches(anew(), batch_size=8):
                pass

    go(train, "gossipgrad", 2)
    assert all(epoch == epochs[k % 2] for k, epoch in enumerate(epochs))
    assert not epochs[0] & epochs[1]


def test_two_data_sets_may_be_used_in_turn() -> None:
    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model))
        held_out = tuple(part[:12] for part in data())
        for _ in range(2):
            loop(worker, model, optimizer)
            assert sum(len(x) for x, _ in worker.batches(held_out, batch_size=6)) == 6

    go(train, "gossipgrad", 2)


@pytest.mark.parametrize("batch_size", [0, -3])
def test_a_batch_size_of_nothing_is_refused(batch_size: int) -> None:
    with pytest.raises(DataError, match=rf"batch_size={batch_size} is not a batch size"):
        seen(data, size=batch_size)


def test_numbers_of_arrays_come_as_tensors() -> None:
    [[batch, *_]] = seen(lambda: (np.arange(16.0), np.arange(16)))
    assert [part.dtype for part in batch] == [torch.float64, torch.int64]
