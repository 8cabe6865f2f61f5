"""Data without a length: every worker takes its part, and all end together."""

from __future__ import annotations

import multiprocessing
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ports import reserved_port
from torch.utils import data as tools
from toy import network

from polyrhythm.core import rng
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.processes import Processes
from polyrhythm.core.protocols.deals import Deals
from polyrhythm.core.training.data.source import stream_of
from polyrhythm.core.training.run import run
from polyrhythm.errors import DataError
from polyrhythm.shuffle import GlobalShuffle

from .scenes import Counting, dealt, go, seen, sgd


def shares(data: Any, workers: int, size: int) -> list[list[list[int]]]:
    """By worker: the samples of its batches."""
    stream = stream_of(data)
    assert stream is not None
    deals = [list(GlobalShuffle().stream(stream, Deals(Group.of_workers(workers, rank, 3)).of(0), size)) for rank in range(workers)]
    assert all(samples == len(batch) for deal in deals for samples, batch in deal)
    return [[batch.tolist() for _, batch in deal] for deal in deals]


LENGTHS = st.tuples(st.sampled_from([1, 2, 3, 5]), st.integers(0, 60), st.integers(1, 9)).filter(lambda drawn: drawn[0] <= drawn[1])


@settings(deadline=None)
@given(LENGTHS)
def test_all_workers_end_together_whatever_the_length_and_leave_out_fewer_samples_than_workers(drawn: tuple[int, int, int]) -> None:
    workers, length, size = drawn
    parts = shares(Counting(length), workers, size)
    assert len({str([len(batch) for batch in part]) for part in parts}) == 1
    seen = [k for part in parts for batch in part for k in batch]
    assert len(set(seen)) == len(seen) > length - workers


@settings(deadline=None)
@given(LENGTHS)
def test_a_step_of_all_workers_is_the_next_part_of_the_stream(drawn: tuple[int, int, int]) -> None:
    workers, length, size = drawn
    together = [k for step in zip(*shares(Counting(length), workers, size), strict=True) for batch in step for k in batch]
    assert together == list(range(len(together)))


@settings(deadline=None)
@given(LENGTHS)
def test_a_loader_that_drops_its_last_batch_gives_full_ones_only(drawn: tuple[int, int, int]) -> None:
    workers, length, size = drawn
    loader = tools.DataLoader(Counting(length), batch_size=size, drop_last=True)
    if length < workers * size:
        with pytest.raises(DataError, match=r"drop_last leaves no batch of a stream.*smaller batch_size"):
            shares(loader, workers, size)
    else:
        assert all(len(batch) == size for part in shares(loader, workers, size) for batch in part)


def test_loading_processes_that_share_a_stream_lose_nothing_and_double_nothing() -> None:
    loader = tools.DataLoader(Counting(60), batch_size=4, num_workers=2)
    parts = dealt(lambda: loader, workers=3, size=None)
    assert sorted(k for part in parts for batch in part[0] for k in batch.tolist()) == list(range(60))


class Drawing(tools.IterableDataset[Any]):
    """The numbers below 48 in an order that one of the global generators gives."""

    def __init__(self, draw: str) -> None:
        self.draw = draw

    def __iter__(self) -> Iterator[int]:
        match self.draw:
            case "torch":
                yield from torch.randperm(48).tolist()
            case "numpy":
                yield from map(int, np.random.permutation(48))
            case "random":
                yield from random.sample(range(48), 48)
            case "late":  # a shuffle buffer draws while it is read
                rest = list(range(48))
                while rest:
                    yield rest.pop(int(torch.randint(len(rest), ()).item()))


FORMS = {
    "by itself": lambda stream: stream,
    "in a loader": lambda stream: tools.DataLoader(stream, batch_size=4),
    "in a process": lambda stream: tools.DataLoader(stream, batch_size=4, num_workers=1),
    "in one that persists": lambda stream: tools.DataLoader(stream, batch_size=4, num_workers=1, persistent_workers=True),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("draw", ["torch", "numpy", "random", "late"])
def test_a_stream_that_shuffles_itself_does_so_alike_at_every_worker_and_anew_in_every_epoch(draw: str, form: str) -> None:
    data = FORMS[form](Drawing(draw))
    parts = dealt(lambda: data, epochs=2, workers=3, size=4)
    orders = []
    for epoch in range(2):
        orders.append([k for step in zip(*(part[epoch] for part in parts), strict=True) for batch in step for k in batch.tolist()])
        assert sorted(orders[-1]) == list(range(48))
    assert orders[0] != orders[1]


def test_what_a_stream_draws_moves_no_draw_of_the_training() -> None:
    drawn: list[list[Any]] = []

    def train(worker: Any) -> None:
        model = network()
        worker.attach(model, sgd(model))
        for stream in (Drawing("late"), Drawing("numpy"), Drawing("random"), Counting(48)):
            rng.seed_everything(7)
            batches = iter(worker.batches(stream, batch_size=4))
            drawn.append([(next(batches), torch.rand(()).item(), np.random.rand(), random.random())[1:] for _ in range(5)])

    go(train, workers=2)
    assert all(each == drawn[0] for each in drawn)


class Placed(Counting):
    """Tells with each number which process it comes from."""

    def __iter__(self) -> Iterator[Any]:
        return ((k, os.getpid()) for k in super().__iter__())


@pytest.mark.parametrize("left_early", [False, True])
def test_processes_that_persist_serve_every_epoch_of_a_stream_and_end_with_the_training(left_early: bool) -> None:
    ours = tools.DataLoader(Placed(24), batch_size=4, num_workers=1, persistent_workers=True)
    kept, pids = [], set()

    def train(worker: Any) -> None:
        model = network()
        worker.attach(model, sgd(model))
        for _ in range(3):
            kept.append(worker.batches(ours))
            for _numbers, processes in kept[-1]:
                pids.update(processes.tolist())
                if left_early:
                    break

    go(train, workers=2)
    assert len(pids) == 2
    assert not multiprocessing.active_children()


JOINED = """
import atexit, multiprocessing, torch
atexit.register(lambda: print(len(multiprocessing.active_children())))  # what is registered first is called last
import polyrhythm as pr
from torch.utils.data import DataLoader, TensorDataset

worker = pr.join("allreduce")
model = torch.nn.Linear(1, 1)
model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
loader = DataLoader(TensorDataset(torch.ones(4, 1)), batch_size=4, num_workers=1, persistent_workers=True)
for (x,) in worker.batches(loader):
    model(x).sum().backward()
    optimizer.step()
print(len(multiprocessing.active_children()))
"""


def test_a_joined_script_does_not_keep_its_loading_processes_while_it_waits_for_the_others() -> None:
    with reserved_port() as port:
        group = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
        path = os.pathsep.join(filter(None, sys.path))
        done = subprocess.run(
            [sys.executable, "-c", JOINED], capture_output=True, text=True, timeout=60, env={**os.environ, **group, "PYTHONPATH": path}
        )
    assert (done.returncode, done.stdout.split()) == (0, ["1", "0"]), done.stderr


def test_a_loaders_size_and_collate_function_are_kept() -> None:
    make = lambda: tools.DataLoader(Counting(20), batch_size=3, collate_fn=lambda samples: -torch.tensor(samples))  # noqa: E731
    [epoch] = seen(make, workers=2, size=None)
    assert [batch.tolist() for batch in epoch] == [[0, -1, -2], [-6, -7, -8], [-12, -13, -14], [-18]]


def test_a_stream_of_batches_is_dealt_out_batch_by_batch() -> None:
    whole = [torch.arange(k) for k in range(1, 8)]

    class Batches(tools.IterableDataset[Any]):
        def __iter__(self) -> Iterator[Any]:
            return iter(whole)

    first, second = dealt(lambda: tools.DataLoader(Batches(), batch_size=None), workers=2, size=None)
    assert [len(batch) for batch in first[0]] == [1, 3, 5]
    assert [len(batch) for batch in second[0]] == [2, 4, 6]


def training(worker: Any) -> None:
    """Two epochs of a stream."""
    model = torch.nn.Linear(1, 1)
    model, optimizer = worker.attach(model, sgd(model))
    for _ in range(2):
        for batch in worker.batches(Counting(41), batch_size=4):
            optimizer.zero_grad()
            model(batch[:, None] / 41).square().mean().backward()
            optimizer.step()


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_a_training_on_a_stream_ends_at_all_workers(workers: int) -> None:
    assert go(training, workers=workers).summary.samples == 2 * (41 - 41 % workers)


def test_a_stream_trains_the_same_bits_in_both_runtimes() -> None:
    real = run(training, workers=2, on=Processes(), seed=5).summary
    assert real.weights_sha256 == go(training, workers=2).summary.weights_sha256


def test_a_stream_has_no_length_and_is_read_anew_in_each_epoch() -> None:
    def train(worker: Any) -> None:
        model = network()
        worker.attach(model, sgd(model))
        batches = worker.batches(Counting(20), batch_size=4)
        with pytest.raises(TypeError, match="no len"):
            len(batches)
        assert len(list(batches)) == len(list(batches)) == 3

    go(train, workers=2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Counting(0), r"The stream is empty.*can be read only once: give an IterableDataset, or make it anew for each epoch"),
        (lambda: Counting(2), r"A stream of 2 samples cannot be sharded over 3 workers: use at most 2 workers"),
    ],
)
def test_a_stream_that_is_too_short_is_refused(make: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        seen(make, workers=3)


def test_an_iterator_that_workers_of_one_process_take_from_each_other_is_refused() -> None:
    shared = iter(range(100))

    def train(worker: Any) -> None:
        model = torch.nn.Linear(1, 1)
        model, optimizer = worker.attach(model, sgd(model))
        for _batch in worker.batches(shared, batch_size=4):
            optimizer.step()

    with pytest.raises(DataError, match=r"Two workers read from the same range_iterator.*create it in the training function"):
        go(train, workers=2)


def test_an_iterator_that_was_read_already_is_refused() -> None:
    once = (k for k in range(12))
    with pytest.raises(DataError, match=r"The stream is empty.*can be read only once"):
        seen(lambda: once, epochs=2)


def test_samples_that_travel_cannot_stream() -> None:
    with pytest.raises(DataError, match=r"RingShuffle.*give a data set with a length, or compose the strategy with shuffle=GlobalShuffle"):
        seen(lambda: Counting(60), workers=2, strategy="gossipgrad")
