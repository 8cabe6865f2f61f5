"""The global shuffle: who sees which sample, and when."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.controller import AS_COMPOSED
from polyrhythm.core.protocols.deals import Deals
from polyrhythm.core.training.data.source import source_of
from polyrhythm.errors import DataError
from polyrhythm.shuffle import MEMBERS, GlobalShuffle


def perform(coroutine: Any) -> Any:
    raise AssertionError("the global shuffle says nothing to anyone")


def epoch(samples: int, workers: int, rank: int, batch_size: int, number: int = 0, seed: int = 3) -> list[list[int]]:
    """The samples in each batch of one worker; sample k of the data is the number k."""
    port = Port(worker(rank), seed, lambda: 0.0)
    deals, source = Deals(Group.of_workers(workers, rank, seed)), source_of(range(samples))
    feed = GlobalShuffle().feed(deals, port, perform, AS_COMPOSED)
    batches = [(length, batch.tolist()) for length, batch in feed.epoch(source, deals.of(number), batch_size)]
    assert [length for length, _ in batches] == [len(batch) for _, batch in batches]
    assert feed.count(source, batch_size) == len(batches)
    return [batch for _, batch in batches]


@st.composite
def shares(draw: st.DrawFn) -> tuple[int, int, int]:
    """Samples, workers, and a batch size."""
    workers = draw(st.integers(1, 9))
    return draw(st.integers(workers, 120)), workers, draw(st.integers(1, 20))


@given(shares())
def test_batches_are_disjoint_and_leave_out_fewer_samples_than_workers(share: tuple[int, int, int]) -> None:
    samples, workers, size = share
    seen = [sample for rank in range(workers) for batch in epoch(samples, workers, rank, size) for sample in batch]
    assert len(seen) == len(set(seen))
    assert samples - workers < len(seen) <= samples
    assert set(seen) <= set(range(samples))


@given(shares())
def test_every_worker_has_equally_many_batches_of_equal_sizes(share: tuple[int, int, int]) -> None:
    samples, workers, size = share
    sizes = [[len(batch) for batch in epoch(samples, workers, rank, size)] for rank in range(workers)]
    assert all(mine == sizes[0] for mine in sizes)
    assert all(0 < length <= size for length in sizes[0])


@given(shares())
def test_a_step_of_all_workers_is_a_step_of_one_with_the_whole_batch(share: tuple[int, int, int]) -> None:
    samples, workers, size = share
    each = [epoch(samples, workers, rank, size) for rank in range(workers)]
    together = [[sample for part in parts for sample in part] for parts in zip(*each, strict=True)]
    alone = epoch(samples, 1, 0, size * workers)
    full = samples // (workers * size)
    assert together[:full] == alone[:full]
    for tail, whole in zip(together[full:], alone[full:], strict=False):
        assert tail == whole[: len(tail)]
        assert len(whole) - len(tail) < workers


@settings(max_examples=20)
@given(seed=st.integers(0, 1000))
def test_every_epoch_and_every_seed_has_an_order_of_its_own(seed: int) -> None:
    orders = [epoch(60, 2, 0, 5, number, seed) for number in range(3)] + [epoch(60, 2, 0, 5, 0, seed + 1)]
    assert len({str(order) for order in orders}) == 4
    assert epoch(60, 2, 0, 5, 1, seed) == orders[1]


@pytest.mark.parametrize("shuffle", MEMBERS, ids=repr)
@pytest.mark.parametrize(
    ("samples", "workers", "size", "message"),
    [
        (0, 2, 4, "The data set is empty.*check how it was loaded"),
        (2, 3, 4, "2 samples cannot be sharded over 3 workers: use at most 2 workers"),
        (9, 3, 0, "batch_size=0 is not a batch size: give the number of samples"),
        (9, 3, -1, "batch_size=-1 is not a batch size"),
    ],
)
def test_what_cannot_be_shared_out_is_refused(shuffle, samples: int, workers: int, size: int, message: str) -> None:  # type: ignore[no-untyped-def]
    deals, source = Deals(Group.of_workers(workers, 0)), source_of(range(samples))
    feed = shuffle.feed(deals, Port(worker(0), 0, lambda: 0.0), perform, AS_COMPOSED)
    with pytest.raises(DataError, match=message):
        next(iter(feed.epoch(source, deals.of(0), size)))
    with pytest.raises(DataError, match=message):
        feed.count(source, size)
