"""The ring shuffle: samples really travel, and in the end everyone has seen them all."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from collectives import run_collective
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from toy import Toy, trained

from polyrhythm.core.kernel.message import Message, wire_bytes
from polyrhythm.core.protocols.controller import AS_COMPOSED
from polyrhythm.core.protocols.deals import Deals
from polyrhythm.core.training.data.source import source_of
from polyrhythm.errors import DataError
from polyrhythm.shuffle import RingShuffle

Passes = list[list[list[Tensor]]]
"""By worker, pass and batch: the samples, one number each."""


def passes(samples: int, workers: int, batch_size: int, count: int, stop: int | None = None, spoil: bool = False) -> tuple[Passes, Any]:
    """What each worker sees in `count` passes, and how the run ended; with `stop` it leaves every pass after so many batches."""
    seen: Passes = [[] for _ in range(workers)]

    def question(context: Any, group: Any) -> Any:
        deals, source = Deals(group), source_of((torch.arange(float(samples)),))
        feed = RingShuffle().feed(deals, context.port, context.perform, AS_COMPOSED)
        for number in range(count):
            seen[group.rank].append([])
            for taken, (length, (batch,)) in enumerate(feed.epoch(source, deals.of(number), batch_size), 1):
                assert length == len(batch)
                seen[group.rank][-1].append(batch.clone())
                if spoil:
                    batch.zero_()
                if taken == stop:
                    break
        return nothing()

    _, ending = run_collective(workers, question)
    return seen, ending


async def nothing() -> tuple[Tensor, ...]:
    return ()


@settings(max_examples=25, deadline=None)
@given(workers=st.integers(1, 5), extra=st.integers(0, 30), batch_size=st.integers(1, 7))
def test_every_worker_sees_every_dealt_sample_in_as_many_passes_as_there_are_workers(workers: int, extra: int, batch_size: int) -> None:
    samples = workers + extra
    seen, _ = passes(samples, workers, batch_size, workers)
    dealt = sorted(float(x) for mine in seen for batch in mine[0] for x in batch)
    assert len(dealt) == len(set(dealt)) > samples - workers
    for mine in seen:
        assert len({len(each) for each in mine}) == 1
        assert sorted(float(x) for each in mine for batch in each for x in batch) == dealt


def test_a_batch_arrives_as_it_was_sent_at_the_next_in_rank() -> None:
    seen, _ = passes(31, 3, 4, 3)
    for rank in range(3):
        for number in range(2):
            for sent, arrived in zip(seen[rank][number], seen[(rank + 1) % 3][number + 1], strict=True):
                assert torch.equal(sent, arrived)


def test_all_workers_have_equally_many_batches_of_equal_sizes_in_every_pass() -> None:
    seen, _ = passes(47, 4, 5, 3)
    sizes = [[[len(batch) for batch in each] for each in mine] for mine in seen]
    assert all(mine == sizes[0] for mine in sizes)


def test_what_a_training_function_does_to_its_batch_does_not_travel() -> None:
    plain, _ = passes(24, 3, 4, 3)
    spoilt, _ = passes(24, 3, 4, 3, spoil=True)
    assert str(plain) == str(spoilt)


def test_leaving_a_pass_early_loses_no_sample() -> None:
    for stop in (1, 2, 3):
        seen, _ = passes(24, 2, 3, 8, stop)
        assert {float(x) for mine in seen for each in mine for batch in each for x in batch} == {float(k) for k in range(24)}


def test_travelling_samples_are_counted_as_traffic() -> None:
    _, ending = passes(26, 2, 4, 2)  # batches of 4, 4, 4 and a tail of 1 for each of two workers
    lengths = [4, 4, 4, 1] * 2
    each = sum(wire_bytes(Message(f"data/{k}", tensors=(torch.zeros(length),))) for k, length in enumerate(lengths))
    assert (ending.bytes_sent, ending.messages_sent) == (2 * each, 2 * len(lengths))


@pytest.mark.parametrize("batch_size", [5, 7, 31, 32, 96])
@pytest.mark.parametrize("workers", [2, 3, 5])
def test_uneven_tails_never_hang_a_training(workers: int, batch_size: int) -> None:
    assert trained(Toy(batch_size=batch_size), workers, "gossipgrad").summary.steps == 2 * -(-(96 // workers) // batch_size)


def test_another_batch_size_in_a_later_epoch_is_refused() -> None:
    def question(context: Any, group: Any) -> Any:
        deals, source = Deals(group), source_of((torch.zeros(20),))
        feed = RingShuffle().feed(deals, context.port, context.perform, AS_COMPOSED)
        list(feed.epoch(source, deals.of(0), 4))
        with pytest.raises(DataError, match=r"batch_size=5 after 4.*keep the size, or use GlobalShuffle"):
            next(iter(feed.epoch(source, deals.of(1), 5)))
        return nothing()

    run_collective(2, question)


def test_samples_that_are_no_tensors_are_refused() -> None:
    def question(context: Any, group: Any) -> Any:
        deals = Deals(group)
        feed = RingShuffle().feed(deals, context.port, context.perform, AS_COMPOSED)
        with pytest.raises(DataError, match="tuple of tensors; use GlobalShuffle"):
            next(iter(feed.epoch(source_of([{"x": 1.0}] * 4), deals.of(0), 2)))
        return nothing()

    run_collective(2, question)
