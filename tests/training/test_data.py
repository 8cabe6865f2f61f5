"""What a user may give to `worker.batches`, and what comes back."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils import data as tools
from toy import data, network

from polyrhythm.errors import DataError
from polyrhythm.shuffle import RingShuffle
from polyrhythm.strategy import Strategy

from .scenes import flat, go, loop, sgd, trains


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


class Stream(tools.IterableDataset[Any]):
    """Has no length and no order."""

    def __iter__(self) -> Iterator[Any]:
        return iter(zip(*data(), strict=True))


FORMS = {
    "tuple": data,
    "list": lambda: list(data()),
    "arrays": lambda: tuple(part.numpy() for part in data()),
    "dict": lambda: dict(zip("xy", data(), strict=True)),
    "tensors": lambda: tools.TensorDataset(*data()),
    "dataset": Pairs,
    "samples": lambda: list(zip(*data(), strict=True)),
    "dicts": Named,
    "loader": lambda: tools.DataLoader(Pairs(), batch_size=3, shuffle=True),
    "subset": lambda: tools.Subset(Pairs(), range(96)),
}


def given(form: str) -> Any:
    """Trains on one form of the data."""

    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model))
        for batch in worker.batches(FORMS[form](), batch_size=8):
            x, y = (batch["x"], batch["y"]) if isinstance(batch, dict) else batch
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()

    return train


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_the_same_data_trains_the_same_model(form: str) -> None:
    outcome = go(given(form), workers=3)
    assert torch.equal(flat(outcome), flat(go(trains(sgd), workers=3)))
    assert outcome.summary.samples == 96


def collate(samples: list[Any]) -> Any:
    """Only the inputs."""
    return torch.stack([x for x, _ in samples]).double()


def seen(make: Any, epochs: int = 1, workers: int = 1, strategy: Any = "allreduce", size: int = 8) -> list[list[Any]]:
    """The batches of worker 0 by epoch, of `make()` anew in every epoch."""
    batches: list[list[Any]] = []

    def train(worker: Any) -> None:
        model = network()
        worker.attach(model, sgd(model))
        for _ in range(epochs):
            epoch = list(worker.batches(make(), batch_size=size))
            if worker.rank == 0:
                batches.append(epoch)

    go(train, strategy, workers)
    return batches


def test_a_loaders_collate_function_is_used() -> None:
    [[first, *_]] = seen(lambda: tools.DataLoader(Pairs(), batch_size=3, collate_fn=collate))
    assert (first.shape, first.dtype) == ((8, 10), torch.float64)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (Stream, r"Stream has no length or no index.*give a map-style Dataset or tensors"),
        (lambda: tools.DataLoader(Stream()), r"Stream has no length or no index"),
        (lambda: iter([1, 2, 3]), r"list_iterator has no length"),
        (lambda: {"a": 1, "b": 2}, r"dict has no length or no index"),
        (list, r"The data set is empty"),
        (lambda: (torch.zeros(4), torch.zeros(5)), r"lengths \[4, 5\]: give tensors with one entry per sample each"),
        (lambda: (torch.zeros(()), torch.zeros(())), r"The data set is empty"),
        (lambda: tools.DataLoader(Pairs(), batch_size=None), r"makes no batches \(batch_size=None\).*give it a batch_size"),
        (lambda: tools.DataLoader(Pairs(), sampler=tools.SubsetRandomSampler(range(9))), r"SubsetRandomSampler chooses.*data.Subset"),
        (lambda: tools.DataLoader(Pairs(), sampler=tools.RandomSampler(Pairs(), replacement=True)), r"RandomSampler chooses"),
    ],
)  # fmt: skip
def test_data_that_cannot_be_shared_out_are_refused_with_a_remedy(make: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        seen(make)


def test_too_few_samples_for_the_workers_are_refused() -> None:
    with pytest.raises(DataError, match=r"3 samples cannot be shared out among 4 workers: use at most 3 workers, or more data"):
        seen(lambda: (torch.zeros(3, 10),), workers=4)


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
    rows = [{tuple(row.tolist()) for x, _ in epoch for row in x} for epoch in dealt]
    assert not rows[0] & rows[1]
    assert len(rows[0] | rows[1]) == 96


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
    with pytest.raises(DataError, match=rf"batch_size={batch_size} is no batch"):
        seen(data, size=batch_size)


def test_numbers_of_arrays_come_as_tensors() -> None:
    [[batch, *_]] = seen(lambda: (np.arange(16.0), np.arange(16)))
    assert [part.dtype for part in batch] == [torch.float64, torch.int64]
