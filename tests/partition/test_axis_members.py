"""Every member of `Axis` gives the same results; by messages and natively they are the same to the bit, and so are the bytes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

import pytest
import torch
from torch import Tensor

import polyrhythm as pr
from polyrhythm.core.kernel.events import Communicated, Event
from polyrhythm.core.kernel.group import Group, workers
from polyrhythm.core.kernel.job import Ending, Job, WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.errors import DeadlockError, RunError, WorkerFailed
from polyrhythm.partition.axis import Axis, near_equal
from polyrhythm.partition.axis_collectives import AxisCollectives, ByMessages, Natively
from polyrhythm.partition.port_axis import NoLedger, PortAxis
from polyrhythm.process_group.messages.desk import Desk

from .ranks import on_ranks

LINE = "x of all"
TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int16, torch.uint8)


def numbers(rank: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(7 * rank + sum(shape))).mul(5).to(dtype)


def sums(axis: Axis) -> list[Tensor]:
    size, at = axis.size, axis.index
    found = [axis.all_reduce(numbers(at, n, dtype=dtype)) for n in (0, 1, 700, 40_001) for dtype in TYPES]
    found += [axis.all_reduce(numbers(at, 60, 50).t()), axis.all_reduce(torch.tensor(at + 0.5)), axis.maximum(numbers(at, 900))]
    for length in (2, 4 * size + 1, 9000):
        sizes = near_equal(length, size)
        found += [axis.reduce_scatter(numbers(at, length, 3, dtype=dtype), 0, sizes) for dtype in TYPES]
        found.append(axis.reduce_scatter(numbers(at, 5, length)[:, :], 1, sizes))
    return [*found, axis.reduce(numbers(at, 3000), size - 1), axis.reduce(numbers(at, 3), 0)]


def copies(axis: Axis) -> list[Tensor]:
    size, at = axis.size, axis.index
    sizes = [(3 * rank + 2) % 5 for rank in range(size)]
    found = [axis.all_gather(numbers(at, sizes[at], 40, dtype=dtype), 0, sizes) for dtype in (*TYPES, torch.bool)]
    found += [axis.all_gather(numbers(at, 3, sizes[at]), 1, sizes), axis.all_gather(numbers(at, 30_000), 0, [30_000] * size)]
    found += [axis.broadcast(numbers(at, 90, 100).t(), source) for source in range(size)]
    parts = axis.all_to_all([numbers(at, to + at) for to in range(size)], [(source + at,) for source in range(size)])
    found += [*parts, axis.shift(numbers(at, 2000), 1, (2000,))]
    sent = axis.send_to(numbers(at, 300), (at + 1) % size)
    found.append(axis.receive_from((at - 1) % size, (300,), torch.empty(0)).wait())
    return [*found, sent.wait()]


def pieces(axis: Axis) -> list[Tensor]:
    size, at = axis.size, axis.index
    found = []
    for dtype in TYPES:
        lengths = [[] if rank == 1 else [5 * rank, 0, 3, 9000] for rank in range(size)]
        parts = [[numbers(at + 9 * rank, n, dtype=dtype) for n in each] for rank, each in enumerate(lengths)]
        into = [torch.empty_like(part) for part in parts[at]]
        axis.reduce_scatter_into(parts, into, 1.0 if dtype in (torch.int64, torch.int16, torch.uint8) else size)
        places = [[torch.empty_like(part) for part in each] for each in parts]
        axis.gather_into(into, places)
        found += [piece for each in places for piece in each]
    return found


PROGRAMS: dict[str, Callable[[Axis], list[Tensor]]] = {"sums": sums, "copies": copies, "pieces": pieces}


def axis_of(context: WorkerContext, size: int, native: bool) -> PortAxis:
    rank = int(context.port.name.partition("/")[2])
    line = Group(LINE, workers(size), rank)
    collectives: AxisCollectives = Natively(line) if native else ByMessages()
    assert not native or context.native(line)
    return PortAxis("x", Group.of_workers(size, rank), Desk(context, NoLedger()), collectives)


def job(size: int, program: Callable[[PortAxis], list[Tensor]], native: bool) -> Job:
    def inside(context: WorkerContext) -> Message:
        return Message("found", tensors=tuple(program(axis_of(context, size, native))))

    async def service(port: Any, record: Any) -> None:
        """There are no servers."""

    return Job(size, 0, inside, service, lambda actor: True, collective=((LINE, workers(size)),))


def ran(runtime: Any, made: Job) -> tuple[Ending, list[Communicated]]:
    events: list[Event] = []
    ending = runtime.execute(made, events.append)
    return ending, [event for event in events if isinstance(event, Communicated)]


def found_by(ending: Ending, rank: int) -> tuple[Tensor, ...]:
    message = ending.results[f"worker/{rank}"]
    assert message is not None
    return message.tensors


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("size", [2, 3, pytest.param(4, marks=pytest.mark.long)])
def test_natively_results_and_bytes_are_those_of_messages_to_the_bit(size: int, program: str) -> None:
    natively, calls = ran(pr.Processes(), job(size, PROGRAMS[program], True))
    virtual, wanted = ran(pr.Simulator(), job(size, PROGRAMS[program], False))
    assert natively.bytes_sent == virtual.bytes_sent
    assert natively.messages_sent == virtual.messages_sent
    by_actor = attrgetter("actor")
    for one, other in zip(sorted(calls, key=by_actor), sorted(wanted, key=by_actor), strict=True):
        assert (one.what, one.of, one.where, one.nbytes) == (other.what, other.of, other.where, other.nbytes)
    for rank in range(size):
        for place, (mine, theirs) in enumerate(zip(found_by(natively, rank), found_by(virtual, rank), strict=True)):
            assert mine.dtype == theirs.dtype
            assert mine.shape == theirs.shape
            assert torch.equal(mine, theirs), (rank, place)


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_axis_over_a_process_group_gives_the_same(program: str) -> None:
    ending, _ = ran(pr.Simulator(), job(3, PROGRAMS[program], False))
    for rank, found in enumerate(on_ranks(lambda place, rank: PROGRAMS[program](place.axis("x")), x=3)):
        for mine, theirs in zip(found, found_by(ending, rank), strict=True):
            narrow = mine.dtype in (torch.bfloat16, torch.float16)
            torch.testing.assert_close(mine, theirs, rtol=1e-2 if narrow else 1e-5, atol=1e-2 if narrow else 1e-5)


def test_arguments_stay_as_they_are() -> None:
    def program(axis: PortAxis) -> list[Tensor]:
        given = numbers(axis.index, 9000)
        before = given.clone()
        axis.all_reduce(given)
        axis.reduce_scatter(given, 0, near_equal(9000, 2))
        axis.all_gather(given, 0, [9000, 9000])
        axis.broadcast(given, 1)
        return [given - before]

    ending, _ = ran(pr.Processes(), job(2, program, True))
    assert not any(found_by(ending, rank)[0].any() for rank in range(2))


def _lost(axis: PortAxis, after: int) -> list[Tensor]:
    for number in range(40):
        if axis.index == 1 and number == after:
            os.kill(os.getpid(), signal.SIGKILL)
        axis.all_reduce(torch.ones(3_000_000))
    time.sleep(60)
    return []


@pytest.mark.parametrize("after", [0, 3])
def test_the_end_of_a_member_in_the_middle_ends_the_run_at_once_with_its_name(after: int) -> None:
    began = time.monotonic()
    with pytest.raises(WorkerFailed, match="worker/1"):
        ran(pr.Processes(), job(3, partial(_lost, after=after), True))
    assert time.monotonic() - began < 20


def test_a_member_that_has_ended_is_named_where_others_wait_for_it() -> None:
    def program(axis: PortAxis) -> list[Tensor]:
        return [] if axis.index == 1 else [axis.all_reduce(torch.ones(3))]

    with pytest.raises(DeadlockError, match="worker/1 has ended"):
        ran(pr.Processes(), job(2, program, True))


@pytest.mark.parametrize("native", [False, True])
def test_members_that_issue_different_collectives_are_told_which(native: bool) -> None:
    def program(axis: PortAxis) -> list[Tensor]:
        return [axis.all_reduce(torch.ones(3 + axis.index))]

    with pytest.raises(RunError, match=r"rank \d issues all_reduce SUM float32 \[[34]\].*and rank \d all_reduce SUM float32 \[[34]\]"):
        ran(pr.Processes(), job(2, program, native))


def test_members_that_wait_for_each_other_in_different_ways_are_a_deadlock() -> None:
    def program(axis: PortAxis) -> list[Tensor]:
        if axis.index:
            return [axis.receive_from(0, (3,), torch.empty(0)).wait()]
        return [axis.all_reduce(torch.ones(3))]

    with pytest.raises(DeadlockError, match="worker/0 waits for the others"):
        ran(pr.Processes(patience=1.0), job(2, program, True))
