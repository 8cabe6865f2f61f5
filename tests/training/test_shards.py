"""One worker's share of anything that can be iterated, for loops with a loader of their own."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils import data as tools
from toy import network

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.deals import Deals
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.training.data.draws import ShareDraws
from polyrhythm.core.training.data.stream import StreamShard
from polyrhythm.core.training.run import run

from .scenes import Counting, sgd


@given(workers=st.sampled_from([1, 2, 3, 5]), length=st.integers(0, 40))
def test_shards_are_disjoint_and_equally_long(workers: int, length: int) -> None:
    parts = [list(StreamShard(range(length), ShareDraws(Deals(Group.of_workers(workers, rank))))) for rank in range(workers)]
    assert parts == [list(range(rank, length - length % workers, workers)) for rank in range(workers)]


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("make", [lambda: list(range(41)), lambda: Counting(41)], ids=["a list", "a stream that shares itself out"])
def test_the_processes_of_a_loader_share_a_shard(make: Any, processes: int) -> None:
    loaders = [
        tools.DataLoader(StreamShard(make(), ShareDraws(Deals(Group.of_workers(3, rank)))), batch_size=4, num_workers=processes)
        for rank in range(3)
    ]
    parts = [[batch.tolist() for batch in loader] for loader in loaders]
    assert sorted(k for part in parts for batch in part for k in batch) == list(range(39))
    assert len({str([len(batch) for batch in part]) for part in parts}) == 1


def test_a_shard_is_a_data_set_for_a_loader_of_ones_own() -> None:
    def train(worker: Any) -> None:
        model = network()
        _, optimizer = worker.attach(model, sgd(model))
        for batch in tools.DataLoader(worker.shard(Counting(30)), batch_size=5):
            got[worker.rank] = [*got.get(worker.rank, []), *batch.tolist()]
            worker.count(len(batch))
            optimizer.step()

    got: dict[int, list[int]] = {}
    summary = run(train, workers=2, on=Simulator(network=Instant())).summary
    assert got == {0: list(range(0, 30, 2)), 1: list(range(1, 30, 2))}
    assert (summary.steps, summary.samples) == (3, 30)
