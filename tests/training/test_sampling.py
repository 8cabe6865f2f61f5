"""Which samples an epoch has: a loader's sampler, and the sampler for loops with a loader of their own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils import data as tools
from toy import data, network

from polyrhythm.core import rng
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.processes import Processes
from polyrhythm.core.protocols.deals import Deals
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.training.data.sampling import Permuted
from polyrhythm.core.training.run import run
from polyrhythm.errors import DataError
from polyrhythm.shuffle import MEMBERS

from .scenes import dealt, go, sgd

WEIGHTS = [0.0] * 20 + [1.0] * 20
DRAWS = {
    "weighted": lambda: tools.WeightedRandomSampler(WEIGHTS, 30),
    "weighted, each once": lambda: tools.WeightedRandomSampler(WEIGHTS, 12, replacement=False),
    "with replacement": lambda: tools.RandomSampler(range(40), replacement=True, num_samples=25),
    "some": lambda: tools.RandomSampler(range(40), num_samples=24),
    "several times": lambda: tools.RandomSampler(range(40), num_samples=100),
    "a random subset": lambda: tools.SubsetRandomSampler([3, 5, 7, 9, 11, 30]),
    "with a generator": lambda: tools.WeightedRandomSampler(WEIGHTS, 30, generator=torch.Generator().manual_seed(4)),
    "listed": lambda: [5, 5, 3, 1],
}


def drawn(sampler: Any, workers: int, epoch: int) -> list[int]:
    """What all workers together get in an epoch, with batches that hold all of it."""
    parts = dealt(lambda: tools.DataLoader(range(40), sampler=sampler()), epochs=epoch + 1, workers=workers, size=60)  # type: ignore[arg-type]
    return [int(k) for part in parts for batch in part[epoch] for k in batch]


@pytest.mark.parametrize("name", DRAWS)
def test_one_draw_an_epoch_is_dealt_out_among_the_workers(name: str) -> None:
    alone = [drawn(DRAWS[name], 1, epoch) for epoch in range(2)]
    for workers in (2, 3):
        for epoch in range(2):
            together = drawn(DRAWS[name], workers, epoch)
            assert together == alone[epoch][: len(together)]
            assert len(together) > len(alone[epoch]) - workers
    assert len(alone[0]) == len(DRAWS[name]())  # type: ignore[arg-type]
    assert (alone[0] == alone[1]) == (name == "listed")


def test_draws_keep_to_their_weights_and_their_subset() -> None:
    assert set(drawn(DRAWS["weighted"], 2, 0)) <= set(range(20, 40))
    once = drawn(DRAWS["weighted, each once"], 2, 0)
    assert len(set(once)) == 12
    assert set(once) <= set(range(20, 40))
    assert sorted(drawn(DRAWS["a random subset"], 2, 1)) == [3, 5, 7, 9, 11, 30]
    assert set(drawn(DRAWS["several times"], 2, 0)) == set(range(40))


def test_what_is_drawn_anew_in_every_epoch_cannot_travel() -> None:
    with pytest.raises(DataError, match=r"RingShuffle.*draws others later.*GlobalShuffle"):
        dealt(lambda: tools.DataLoader(tools.TensorDataset(torch.zeros(40)), sampler=DRAWS["weighted"]()), strategy="gossipgrad")


@pytest.mark.parametrize("shuffle", MEMBERS, ids=repr)
@given(workers=st.integers(1, 6), extra=st.integers(0, 20), epoch=st.integers(0, 9))
def test_shares_of_an_epoch_are_disjoint_and_equally_long(shuffle: Any, workers: int, extra: int, epoch: int) -> None:
    samples = workers + extra
    shares = [list(shuffle.share(Permuted(samples), Deals(Group.of_workers(workers, rank, 3)).of(epoch))) for rank in range(workers)]
    assert {len(share) for share in shares} == {samples // workers}
    together = [k for share in shares for k in share]
    assert len(set(together)) == len(together)


def test_under_a_ring_each_takes_over_what_the_worker_before_had() -> None:
    [ring] = [shuffle for shuffle in MEMBERS if "Ring" in repr(shuffle)]
    for rank in range(3):
        before = ring.share(Permuted(20), Deals(Group.of_workers(3, rank)).of(4))
        assert list(ring.share(Permuted(20), Deals(Group.of_workers(3, (rank + 1) % 3)).of(5))) == list(before)


def with_own_loader(epochs: int = 2, **options: Any) -> Any:
    """The usual loop of one process, given only a sampler."""

    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model))
        dataset = tools.TensorDataset(*data())
        sampler = worker.sampler(dataset)
        loader = tools.DataLoader(dataset, batch_size=8, sampler=sampler, **options)
        assert len(loader) == len(sampler) // 8
        for _ in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()

    return train


@pytest.mark.parametrize("strategy", ["allreduce", "ssp", "gossipgrad"])
@pytest.mark.parametrize("processes", [0, 1])
def test_a_sampler_shares_data_out_to_a_loader_of_ones_own_and_counts(strategy: str, processes: int) -> None:
    summary = go(with_own_loader(num_workers=processes), strategy, workers=3).summary
    assert (summary.steps, summary.samples) == (8, 192)


def test_a_sampler_trains_the_same_bits_in_both_runtimes() -> None:
    virtual, real = go(with_own_loader(), workers=2), run(with_own_loader(), workers=2, on=Processes(), seed=5)
    assert real.summary.weights_sha256 == virtual.summary.weights_sha256


@given(workers=st.integers(1, 5), size=st.integers(1, 9))
def test_a_step_of_all_samplers_is_a_step_of_one_with_the_whole_batch(workers: int, size: int) -> None:
    share = MEMBERS[0].share
    parts = [list(share(Permuted(60), Deals(Group.of_workers(workers, rank, 3)).of(1))) for rank in range(workers)]
    whole = rng.stream(3, "shuffle", 1).permutation(60).tolist()
    for step in range(60 // (workers * size)):
        together = {k for part in parts for k in part[step * size : (step + 1) * size]}
        assert together == set(whole[step * workers * size : (step + 1) * workers * size])


def test_a_sampler_has_a_new_order_at_each_pass_or_the_one_of_the_epoch_that_is_set() -> None:
    def train(worker: Any) -> None:
        model = network()
        worker.attach(model, sgd(model))
        sampler = worker.sampler(range(40))
        passes = [list(sampler) for _ in range(3)]
        assert len({str(order) for order in passes}) == 3
        sampler.set_epoch(1)
        assert [list(sampler), list(sampler)] == passes[1:]
        in_turn = worker.sampler(range(40), shuffle=False)
        assert list(in_turn) == list(in_turn) == list(range(worker.rank, 40, 2))

    go(train, workers=2)


def test_a_sampler_of_too_few_samples_is_refused() -> None:
    def train(worker: Any) -> None:
        worker.sampler(range(1))

    with pytest.raises(DataError, match="1 samples cannot be sharded over 2 workers"):
        go(train, workers=2)


def test_sharing_out_twice_is_refused() -> None:
    def train(worker: Any) -> None:
        dataset = tools.TensorDataset(*data())
        worker.batches(tools.DataLoader(dataset, sampler=worker.sampler(dataset)))

    with pytest.raises(DataError, match=r"worker\.sampler, which shares them out already.*iterate the loader itself"):
        run(train, workers=2, on=Simulator(network=Instant()))
