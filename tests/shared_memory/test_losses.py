"""Waits that end badly: ranks that are lost, and interrupts."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from polyrhythm.core.shared_memory import MemoryGroup, SharedSegment
from polyrhythm.core.shared_memory.native import Native
from polyrhythm.core.shared_memory.portable import Portable
from polyrhythm.core.shared_memory.segment import LINE


@pytest.mark.parametrize("engine", [Native, Portable])
def test_a_worker_that_waits_for_a_lost_rank_gets_an_error_and_the_group_is_of_no_use_then(engine: type) -> None:
    segment = SharedSegment.create(2)
    group = MemoryGroup(segment, 0, engine)
    threading.Timer(0.05, group.lose, [1]).start()
    with pytest.raises(ConnectionAbortedError, match="given up"):
        group.reduce(torch.ones(4), torch.ones(4))
    with pytest.raises(ConnectionAbortedError, match="out of step"):
        group.reduce(torch.ones(4), torch.ones(4))
    segment.close()


@pytest.mark.parametrize("engine", [Native, Portable])
def test_a_rank_that_had_given_its_part_may_be_lost(engine: type) -> None:
    segment = SharedSegment.create(2)
    ours, theirs = MemoryGroup(segment, 0, engine), MemoryGroup(segment, 1, engine)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(theirs.reduce, torch.ones(4), torch.ones(4))
        counter = segment.base[LINE : LINE + 4].view(torch.int32)
        while counter.item() != 1:
            os.sched_yield()
        ours.lose(1)
        total = torch.ones(4)
        ours.reduce(total, total)
        other.result()
    assert total.tolist() == [2, 2, 2, 2]
    segment.close()


@pytest.mark.parametrize("engine", [Native, Portable])
def test_after_an_interrupt_the_group_is_of_no_use(engine: type) -> None:
    class Interrupted(BaseException):
        """As KeyboardInterrupt, which would end the tests."""

    def interrupt(number: int, frame: object) -> None:
        raise Interrupted

    segment = SharedSegment.create(2)
    group = MemoryGroup(segment, 0, engine)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Interrupted):
            group.reduce(torch.ones(4), torch.ones(4))
    finally:
        signal.signal(signal.SIGALRM, before)
    group.lose(1)
    with pytest.raises(ConnectionAbortedError, match="out of step"):
        group.reduce(torch.ones(4), torch.ones(4))
    segment.close()


def test_a_rank_that_gives_its_part_while_the_others_learn_of_its_loss_has_given_it() -> None:
    segment = SharedSegment.create(2)
    group = MemoryGroup(segment, 0, Portable)

    class GivesLast(list[bool]):
        """Rank 1 counts on, and is lost, between two looks of the other."""

        def __getitem__(self, rank: Any) -> Any:
            segment.base[2 * LINE - 96 : 2 * LINE].copy_(segment.base[LINE - 96 : LINE])  # it does the same
            segment.base[LINE : LINE + 4].view(torch.int32).fill_(1)
            return True

    group._engine._gone = GivesLast()  # type: ignore[attr-defined]
    group.barrier()
    segment.close()


@pytest.mark.parametrize("engine", [Native, Portable])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("sizes", [(3, 5), (5, 300_000, 7, 9, 200_000), (200_000, 200_001, 1)])
@pytest.mark.parametrize("given", [0, 1, 2, 3, 4, 7])
def test_parts_that_are_kept_are_as_they_were_after_a_sum_that_is_given_up(
    engine: type, dtype: torch.dtype, sizes: tuple[int, ...], given: int
) -> None:
    """The other rank is lost when it has counted to `given`, in the midst of the first sum, or in a later one."""
    segment = SharedSegment.create(2)
    group = MemoryGroup(segment, 0, engine)
    parts = [torch.randn(size).to(dtype) for size in sizes]
    before = [part.clone() for part in parts]
    mine, theirs = (segment.base[LINE * rank : LINE * rank + 4].view(torch.int32) for rank in range(2))

    def other() -> None:
        while theirs.item() < given:
            while mine.item() <= theirs.item():
                if ended:
                    return
                os.sched_yield()
            segment.base[LINE + 32 : 2 * LINE] = segment.base[32:LINE]  # it does the same
            theirs.fill_(min(int(mine.item()), given))
        group.lose(1)

    ended: list[bool] = []
    with ThreadPoolExecutor(1) as pool:
        lost = pool.submit(other)
        try:
            group.reduce_parts(parts, kept=torch.empty(sum(sizes) + 1, dtype=dtype)[1:])
        except ConnectionAbortedError:
            assert all(torch.equal(part, own) for part, own in zip(parts, before, strict=True))
        else:
            assert not any(torch.equal(part, own) for part, own in zip(parts, before, strict=True) if part.numel() > 5) or sizes == (3, 5)
        ended.append(True)
        lost.result()
    segment.close()
