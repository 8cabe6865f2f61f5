"""Data that divide themselves: each sample is seen once, by one worker, and all workers end together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader
from toy import network

from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.training.run import run
from polyrhythm.errors import CheckpointError, DataError
from polyrhythm.hardware.faults import Crash

from .scenes import dealt, go, sgd
from .sharded_sources import Numbers, Uneven


def together(parts: list[list[list[Any]]], epoch: int = 0) -> list[int]:
    """All samples of an epoch, sorted."""
    return sorted(k for part in parts for batch in part[epoch] for k in batch.tolist())


def sizes(parts: list[list[list[Any]]], epoch: int = 0) -> list[list[int]]:
    return [[len(batch) for batch in part[epoch]] for part in parts]


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=4), st.integers(1, 9))
def test_shards_of_any_lengths_end_together_and_lose_nothing(lengths: list[int], size: int) -> None:
    if sum(lengths) < len(lengths):
        with pytest.raises(DataError, match=r"nothing to train on|cannot be sharded over"):
            dealt(lambda: Uneven(lengths), workers=len(lengths), size=size)
        return
    parts = dealt(lambda: Uneven(lengths), workers=len(lengths), size=size)
    assert together(parts) == list(range(sum(lengths)))
    counts = sizes(parts)
    assert len({len(each) for each in counts}) == 1
    assert all(each[:-1] == [size] * (len(each) - 1) and 1 <= each[-1] <= size + 1 for each in counts)


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 5), st.integers(5, 90), st.integers(1, 9))
def test_where_the_number_of_samples_is_known_nothing_is_sent_and_nothing_is_lost(workers: int, samples: int, size: int) -> None:
    parts = dealt(lambda: Numbers(samples), workers=workers, size=size)
    assert together(parts) == list(range(samples))
    counts = sizes(parts)
    assert len({len(each) for each in counts}) == 1
    assert all(each[:-1] == [size] * (len(each) - 1) and 1 <= each[-1] <= size + 1 for each in counts)


@pytest.mark.parametrize("source", [Numbers(50, drop_last=True), Uneven([20, 17, 13], drop_last=True)], ids=["known", "unknown"])
def test_a_source_that_drops_its_last_samples_gives_full_batches_only(source: Any) -> None:
    assert sizes(dealt(lambda: source, workers=3, size=4)) == [[4] * (4 if source.samples else 3)] * 3
    with pytest.raises(DataError, match=r"drop_last leaves no batch of 30 samples.*smaller batch_size"):
        dealt(lambda: source, workers=3, size=30)


def training(source: Any, epochs: int = 2, size: int = 4) -> Any:
    def train(worker: Any) -> None:
        model = torch.nn.Linear(1, 1)
        model, optimizer = worker.attach(model, sgd(model))
        for _ in range(epochs):
            for batch in worker.batches(source, batch_size=size):
                optimizer.zero_grad()
                model(batch[:, None].float().sin()).square().mean().backward()
                optimizer.step()

    return train


SYSTEMS = ["allreduce", "ssp", "downpour", "diloco", "easgd"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_kind_of_system_ends_together_on_a_feed_of_unknown_length(system: str) -> None:
    assert go(training(Uneven([30, 5, 14])), system, workers=3).summary.samples == 2 * 49


def test_a_feed_of_unknown_length_trains_the_same_bits_in_both_runtimes() -> None:
    train = training(Uneven([23, 9]))
    real = run(train, workers=2, on=Processes(), seed=5).summary
    virtual = go(train).summary
    assert (real.weights_sha256, real.samples, real.bytes_sent) == (virtual.weights_sha256, 2 * 32, virtual.bytes_sent)


def test_agreeing_ahead_costs_no_virtual_time_while_all_have_batches() -> None:
    def seconds(source: Any) -> float:
        return (
            run(training(source, 1, 4), workers=2, strategy="allreduce", on=Simulator(network="lan"), seed=1).summary.virtual_seconds or 0
        )

    # the first agreement, that there is no more, and the last samples take a few latencies, at however many batches
    extra = [seconds(Uneven([length, length])) - seconds(Numbers(2 * length)) for length in (40, 400)]
    assert extra[1] - extra[0] < 0.1 * seconds(Numbers(800))


@pytest.mark.parametrize("part", [0.3, 0.6, 0.95, 0.99])
@pytest.mark.parametrize("lengths", [(40, 40, 40), (60, 9, 51)], ids=["equal", "unequal"])
def test_a_run_that_survives_a_loss_goes_on_with_the_shards_that_are_left(part: float, lengths: tuple[int, ...]) -> None:
    def trained(*faults: Any) -> Any:
        return run(training(Uneven(lengths), 1), workers=3, strategy="downpour", on=Simulator(network="lan", faults=faults), seed=1).summary

    whole = trained()
    assert (whole.lost, whole.samples) == ([], 120)
    broken = trained(Crash("worker/2", at=part * (whole.virtual_seconds or 0)))
    assert broken.lost == ["worker/2"]
    assert 40 < broken.samples < 120


SOURCES = {"known": Numbers(49), "unknown": Uneven([30, 19])}


@pytest.mark.parametrize("on", [Simulator(network="lan"), Processes()], ids=["virtual", "real"])
@pytest.mark.parametrize("known", SOURCES)
def test_a_run_resumed_within_an_epoch_ends_with_the_same_bits(known: str, on: Any, tmp_path: Path) -> None:
    train = training(SOURCES[known])
    whole = run(train, on=on, seed=5, checkpoints=Checkpoints(tmp_path, every=3, keep=100))
    paths = sorted(tmp_path.glob("step-*"))
    assert len(paths) > 2
    for path in paths if on.kind == "simulator" else paths[1:2]:
        assert run(train, on=on, seed=5, checkpoints=Checkpoints(resume=path)).summary.weights_sha256 == whole.summary.weights_sha256, path


def test_a_resumed_run_reads_nothing_that_it_does_not_use_where_the_number_is_known(tmp_path: Path) -> None:
    read: list[int] = []

    class Watched(Numbers):
        def shard(self, request: Any) -> Iterator[Any]:
            for rows in Numbers.shard(self, request):
                read.extend(rows)
                yield rows

    run(training(Watched(40), 1), on=Simulator(network="lan"), seed=5, checkpoints=Checkpoints(tmp_path, every=4))
    read.clear()
    run(training(Watched(40), 1), on=Simulator(network="lan"), seed=5, checkpoints=Checkpoints(resume=tmp_path / "step-00000004"))
    assert sorted(read) == [*range(16, 20), *range(36, 40)]


def test_a_source_that_does_not_repeat_its_order_is_resumed_between_epochs_only(tmp_path: Path) -> None:
    source = Uneven([16, 16], repeats=False)
    whole = run(training(source), on=Simulator(network="lan"), seed=5, checkpoints=Checkpoints(tmp_path, every=2, keep=9))
    with pytest.raises(CheckpointError, match=r"after 2 batches of an epoch of a Uneven, which does not repeat the order"):
        run(training(source), on=Simulator(network="lan"), seed=5, checkpoints=Checkpoints(resume=tmp_path / "step-00000002"))
    assert whole.summary.steps == 8


@pytest.mark.parametrize("processes", [0, 1, 2])
@pytest.mark.parametrize("keeps", [False, True])
def test_the_processes_of_a_loader_read_a_shard_each(processes: int, keeps: bool) -> None:
    if keeps and not processes:
        return
    loader: Any = DataLoader(Numbers(50), batch_size=4, num_workers=processes, persistent_workers=keeps)  # type: ignore[arg-type]
    parts = dealt(lambda: loader, epochs=2, workers=3, size=None)
    assert together(parts) == together(parts, 1) == list(range(50))
    assert {len(each) for each in sizes(parts)} == {4}


def test_processes_that_persist_read_the_next_epoch() -> None:
    class Epochs(Numbers):
        def shard(self, request: Any) -> Iterator[Any]:
            return iter([[100 * request.epoch + request.rank]])

    loader: Any = DataLoader(Epochs(4), batch_size=2, num_workers=2, persistent_workers=True)  # type: ignore[arg-type]
    parts = dealt(lambda: loader, epochs=3, workers=2, size=None)
    assert [together(parts, epoch) for epoch in range(3)] == [[100 * epoch + k for k in range(4)] for epoch in range(3)]


def test_a_run_with_loading_processes_resumes_with_the_same_bits(tmp_path: Path) -> None:
    loader: Any = DataLoader(Numbers(50), batch_size=4, num_workers=2)  # type: ignore[arg-type]
    train = training(loader, size=4)
    whole = run(train, on=Simulator(network="lan"), seed=5, checkpoints=Checkpoints(tmp_path, every=5, keep=9))
    resumed = run(train, on=Simulator(network="lan"), seed=5, checkpoints=Checkpoints(resume=tmp_path / "step-00000010"))
    assert resumed.summary.weights_sha256 == whole.summary.weights_sha256


def test_a_length_is_known_where_the_source_knows_it() -> None:
    def train(worker: Any) -> None:
        model = network()
        worker.attach(model, sgd(model))
        assert len(worker.batches(Numbers(50), batch_size=4)) == 7
        with pytest.raises(TypeError, match="no len"):
            len(worker.batches(Uneven([20, 30]), batch_size=4))

    go(train)


def test_samples_that_travel_cannot_have_shards_of_their_own() -> None:
    with pytest.raises(DataError, match=r"RingShuffle.*each worker reads its own shard of a Numbers.*GlobalShuffle"):
        dealt(lambda: Numbers(50), workers=2, strategy="gossipgrad")


def test_a_shard_that_ends_early_is_named() -> None:
    class Short(Numbers):
        def shard(self, request: Any) -> Iterator[Any]:
            return iter([[1], [2]])

    with pytest.raises(DataError, match=r"shard of worker/0 ended 2 samples early: Short has announced 50 samples"):
        dealt(lambda: Short(50), workers=1, size=4)


def test_a_loader_without_a_batch_size_is_refused() -> None:
    loader: Any = DataLoader(Numbers(50), batch_size=None)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"over a Numbers has batch_size=None: give it the batch size"):
        dealt(lambda: loader, workers=2, size=None)


class Iterated:
    """As a shard of Ray Data."""

    def __init__(self, numbers: Sequence[float]) -> None:
        self.numbers = numbers

    def iter_batches(self, *, batch_size: int | None, batch_format: str) -> Iterator[Any]:
        import numpy as np

        assert batch_format == "numpy"
        yield {"x": np.asarray(self.numbers, dtype=np.float64), "label": np.arange(len(self.numbers), dtype=np.int32)}


def test_an_iterator_of_batches_is_a_workers_own_shard_and_its_numbers_get_the_types_of_models() -> None:
    got: dict[int, list[Any]] = {}

    def train(worker: Any) -> None:
        model = network()
        worker.attach(model, sgd(model))
        got[worker.rank] = list(worker.batches(Iterated([worker.rank] * 9), batch_size=4))

    go(train)
    batches = [*got[0], *got[1]]
    assert {(batch["x"].dtype, batch["label"].dtype) for batch in batches} == {(torch.float32, torch.int64)}
    assert sorted(k for batch in batches for k in batch["x"].tolist()) == [0] * 9 + [1] * 9


def test_a_whole_data_set_of_an_engine_is_refused_with_the_way_to_divide_it() -> None:
    class Whole(Iterated):
        def streaming_split(self, n: int, *, equal: bool) -> list[Any]:
            return [Iterated([k]) for k in range(n)]

    with pytest.raises(DataError, match=r"a whole Whole.*RayShards.of\(dataset, workers\)"):
        dealt(lambda: Whole([1, 2, 3]), workers=2)
