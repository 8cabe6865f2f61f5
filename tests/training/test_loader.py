"""What a torch DataLoader says is kept, option by option, or refused; nothing is ignored."""

from __future__ import annotations

import inspect
import multiprocessing
import os
from collections.abc import Iterator
from multiprocessing.context import ForkContext, ForkProcess
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import data as tools
from toy import network

from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.training.data.loader import LoaderSource
from polyrhythm.core.training.run import run
from polyrhythm.errors import DataError, WorkerFailed

from .scenes import dealt, seen, sgd

SAMPLES = 50


class Numbers(tools.Dataset[Any]):
    """Sample k is the number k, and the process that loaded it."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index, os.getpid()


class Whole(tools.Dataset[Any]):
    """Its elements are batches already: of 1, 2, … samples."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Tensor:
        return torch.full((index + 1,), index)


def numbers(epoch: list[Any]) -> list[list[int]]:
    """The samples of each batch."""
    return [batch.tolist() for batch, _ in epoch]


def processes(epoch: list[Any]) -> set[int]:
    return {int(process) for _, batch in epoch for process in batch}


def loader(**options: Any) -> tools.DataLoader[Any]:
    return tools.DataLoader(Numbers(), **options)


def test_its_batch_size_is_that_of_each_worker() -> None:
    [epoch] = seen(lambda: loader(batch_size=7), workers=2, size=None)
    assert [len(batch) for batch in numbers(epoch)] == [7, 7, 7, 4]


def test_a_size_that_is_given_too_wins() -> None:
    [epoch] = seen(lambda: loader(batch_size=7), workers=2, size=5)
    assert [len(batch) for batch in numbers(epoch)] == [5] * 5


@pytest.mark.parametrize("options", [{"batch_size": 4}, {"batch_sampler": tools.BatchSampler(range(SAMPLES), 4, drop_last=True)}])
def test_drop_last_leaves_full_batches_only(options: Any) -> None:
    dropping = options if "batch_sampler" in options else {**options, "drop_last": True}
    for workers in (1, 2, 3, 5):
        for worker in dealt(lambda: loader(**dropping), workers=workers, size=None):
            assert [len(batch) for batch in numbers(worker[0])] == [4] * (SAMPLES // (4 * workers))


def test_without_shuffling_samples_are_dealt_out_in_their_order_in_every_epoch() -> None:
    workers = dealt(lambda: loader(batch_size=5), epochs=2, workers=2, size=None)
    first, second = (numbers(worker[0]) for worker in workers)
    assert [mine + others for mine, others in zip(first, second, strict=True)] == [list(range(k, k + 10)) for k in range(0, 50, 10)]
    assert [numbers(epoch) for epoch in workers[0]] == [first, first]


def test_shuffling_gives_every_epoch_an_order_of_its_own_and_every_sample_to_one_worker() -> None:
    workers = dealt(lambda: loader(batch_size=5, shuffle=True), epochs=2, workers=2, size=None)
    for epoch in range(2):
        assert sorted(k for worker in workers for batch in numbers(worker[epoch]) for k in batch) == list(range(SAMPLES))
    assert numbers(workers[0][0]) != numbers(workers[0][1])


def collate(samples: list[tuple[int, int]]) -> tuple[Tensor, Tensor]:
    return torch.tensor([-index for index, _ in samples]), torch.tensor([process for _, process in samples])


def test_its_collate_function_makes_the_batches_and_their_samples_are_counted_beforehand() -> None:
    [epoch] = seen(lambda: loader(batch_size=10, collate_fn=collate), size=None)
    assert numbers(epoch)[0] == list(range(0, -10, -1))

    def train(worker: Any) -> None:
        model = network()
        _, optimizer = worker.attach(model, sgd(model))
        for _batch in worker.batches(loader(batch_size=10, collate_fn=lambda samples: "no tensor at all")):
            optimizer.step()

    assert run(train, workers=2, on=Simulator(network=Instant())).summary.samples == SAMPLES


def test_batches_are_loaded_in_its_processes_and_all_of_them_work() -> None:
    [first, second] = seen(lambda: loader(num_workers=2), epochs=2)
    assert len(processes(first)) == len(processes(second)) == 2
    assert os.getpid() not in processes(first) | processes(second)
    assert not multiprocessing.active_children()


def test_its_processes_persist_over_epochs_where_they_are_to() -> None:
    kept, ended = loader(num_workers=2, persistent_workers=True), loader(num_workers=2)
    [first, second] = seen(lambda: kept, epochs=2)
    assert processes(first) == processes(second)
    assert not multiprocessing.active_children()
    [first, second] = seen(lambda: ended, epochs=2)
    assert not processes(first) & processes(second)


@pytest.mark.parametrize("persistent", [False, True])
def test_no_process_stays_behind_a_loop_that_is_left_early(persistent: bool) -> None:
    def train(worker: Any) -> None:
        model = network()
        worker.attach(model, sgd(model))
        ours = loader(num_workers=1, persistent_workers=persistent)
        for _ in range(2):
            for _batch in worker.batches(ours, batch_size=4):
                break

    run(train, workers=2, on=Simulator(network=Instant()))
    assert not multiprocessing.active_children()


class CountingContext(ForkContext):
    """Starts processes as usual, and counts them."""

    started = 0

    class Process(ForkProcess):
        def start(self) -> None:
            CountingContext.started += 1
            super().start()


def test_its_multiprocessing_context_starts_its_processes() -> None:
    CountingContext.started = 0
    seen(lambda: loader(num_workers=2, multiprocessing_context=CountingContext()))
    assert CountingContext.started == 2


PREPARED: list[int] = []


class Prepared(Numbers):
    """The second part of a sample is what `prepare` has left in its process."""

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index, PREPARED[0]


def prepare(number: int) -> None:
    PREPARED.append(100 + number)


def test_its_processes_are_prepared_by_its_function() -> None:
    [epoch] = seen(lambda: tools.DataLoader(Prepared(), num_workers=2, worker_init_fn=prepare))
    assert processes(epoch) == {100, 101}


class Noisy(Numbers):
    """The second part of a sample is drawn at random where it is loaded."""

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index, int(torch.randint(1 << 40, ()))


def test_what_its_processes_draw_comes_from_the_runs_seed_and_its_generators() -> None:
    def drawn(seed: int | None) -> list[Any]:
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        workers = dealt(lambda: tools.DataLoader(Noisy(), num_workers=1, generator=generator), epochs=2, workers=2)
        return [[processes(epoch) for epoch in worker] for worker in workers]

    plain, first, second = drawn(None), drawn(1), drawn(2)
    assert plain == drawn(None)
    assert first == drawn(1)
    different = [epoch for outcome in (plain, first, second) for worker in outcome for epoch in worker]
    assert not any(a & b for k, a in enumerate(different) for b in different[:k])


OPTIONS: dict[str, Any] = {
    "num_workers": 2,
    "timeout": 50.0,
    "worker_init_fn": prepare,
    "multiprocessing_context": CountingContext(),
    "prefetch_factor": 5,
    "persistent_workers": True,
}


@pytest.mark.parametrize("option", OPTIONS)
def test_the_loader_that_loads_for_it_has_its_option(option: str) -> None:
    given = loader(**{"num_workers": 2, option: OPTIONS[option]})
    assert getattr(LoaderSource(given).copy, option) == OPTIONS[option] == getattr(given, option)


def test_every_option_of_torchs_loader_is_covered() -> None:
    dealt_with = {"dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "collate_fn", "drop_last", "generator", "pin_memory"}
    refused, without_effect = {"in_order"}, {"pin_memory_device"}
    options = set(inspect.signature(tools.DataLoader.__init__).parameters) - {"self"}
    assert options == dealt_with | refused | without_effect | set(OPTIONS)


@pytest.mark.parametrize("there", [False, True])
def test_memory_is_pinned_where_there_is_a_device_to_pin_for(there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: there)
    assert LoaderSource(loader(pin_memory=True)).copy.pin_memory is there
    assert not LoaderSource(loader()).copy.pin_memory


def test_elements_that_are_batches_already_stay_as_they_are_and_count_by_their_length() -> None:
    def train(worker: Any) -> None:
        model = network()
        _, optimizer = worker.attach(model, sgd(model))
        batches = worker.batches(tools.DataLoader(Whole(), batch_size=None))
        assert len(batches) == 3
        got[worker.rank] = []
        for batch in batches:
            got[worker.rank].append(batch.tolist())
            optimizer.step()

    got: dict[int, Any] = {}
    summary = run(train, workers=2, on=Simulator(network=Instant())).summary
    assert got == {0: [[0], [2] * 3, [4] * 5], 1: [[1] * 2, [3] * 4, [5] * 6]}
    assert summary.samples == 21
    with pytest.raises(DataError, match=r"batch_size=4 was given with a DataLoader that has batch_size=None.*leave it out"):
        seen(lambda: tools.DataLoader(Whole(), batch_size=None), size=4)


@pytest.mark.parametrize("on", [Simulator(network=Instant()), Processes()], ids=["simulator", "processes"])
def test_an_error_in_a_loading_process_comes_with_its_own_traceback(on: Any) -> None:
    class Broken(Numbers):
        def __getitem__(self, index: int) -> tuple[int, int]:
            if index == 31:
                raise KeyError("sample 31 has no label")
            return super().__getitem__(index)

    def train(worker: Any) -> None:
        model = network()
        _, optimizer = worker.attach(model, sgd(model))
        for _batch in worker.batches(tools.DataLoader(Broken(), batch_size=4, num_workers=1)):
            optimizer.step()

    with pytest.raises(WorkerFailed, match=r"(?s)DataLoader worker process 0.*in __getitem__\n.*sample 31 has no label") as caught:
        run(train, workers=2, on=on)
    assert not multiprocessing.active_children(), "although the error is kept"
    assert caught.value.actor in ("worker/0", "worker/1")


class Pairwise(tools.Sampler[list[int]]):
    """A batch sampler of one's own."""

    def __iter__(self) -> Iterator[list[int]]:
        return iter([[k, k + 1] for k in range(0, SAMPLES, 2)])


class Odd(tools.Sampler[int]):
    """A sampler of one's own."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(1, SAMPLES, 2))

    def __len__(self) -> int:
        return SAMPLES // 2


class Own(tools.DataLoader[Any]):
    """A loader that makes batches in its own way."""

    def __iter__(self) -> Any:
        return iter([torch.zeros(4)])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: loader(batch_sampler=Pairwise()),
            r"Pairwise is a batch sampler whose batches may differ.*worker\.shard\(batches\).*worker\.count",
        ),
        (lambda: loader(sampler=Odd()), r"Odd chooses samples in its own way.*sampler=list.*torch\.utils\.data\.Subset"),
        (lambda: Own(Numbers()), r"Own is a subclass of DataLoader.*plain DataLoader.*worker\.sampler"),
        (lambda: loader(num_workers=1, in_order=False), r"in_order=False.*Leave it out"),
        (lambda: loader(batch_size=40, drop_last=True), r"With drop_last, 50 samples make no batch of 40 for each of 2 workers"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_a_remedy(make: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        seen(make, workers=2, size=None)
