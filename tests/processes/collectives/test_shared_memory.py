"""Sums through shared memory: who takes that way, what it counts, and how waiting ends."""

import os
import re
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from polyrhythm.core.kernel.effects import NativeReduce, NativeReduceInPlace
from polyrhythm.core.kernel.events import Recorder
from polyrhythm.core.kernel.group import Group, workers
from polyrhythm.core.kernel.job import Ending, Job, WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.processes.collectives.shared_memory import SharedMemoryReducer
from polyrhythm.core.processes.spawn.launch import Processes
from polyrhythm.core.protocols.algorithm import Algorithm
from polyrhythm.core.shared_memory import MemoryGroup, SharedSegment
from polyrhythm.errors import DeadlockError, WorkerFailed
from polyrhythm.topology import Fastest, Ring, Tree


async def no_service(port: Port, record: Recorder) -> None:
    return None


def run(program: Callable[[WorkerContext], Message | None], workers: int) -> Ending:
    return Processes(patience=4.0).execute(Job(workers, 0, program, no_service, lambda name: True), lambda event: None)


def value_of(rank: int, size: int) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(rank))


async def by_messages(port: Port, algorithm: Algorithm, value: Tensor, workers: int) -> Tensor:
    return await algorithm.reduce(port, Group.of_workers(workers, rank_of(port.name)), value, "1")


async def as_it_comes(port: Port, algorithm: Algorithm, value: Tensor, workers: int) -> Tensor:
    total = await port.reduce(value, "1", Group.of_workers(workers, rank_of(port.name)), algorithm)
    return total if total is not None else await by_messages(port, algorithm, value, workers)


async def in_place(port: Port, algorithm: Algorithm, value: Tensor, workers: int) -> Tensor:
    parts = [part.clone() for part in value.tensor_split(5)]
    assert await port.reduce_in_place(parts, 1.0, "1", Group.of_workers(workers, rank_of(port.name)), algorithm)
    return torch.cat(parts)


@pytest.mark.parametrize("reduce", [as_it_comes, in_place])
@pytest.mark.parametrize(("algorithm", "workers"), [(Ring(), 2), (Ring(), 3), (Ring(), 4), (Tree(), 2), (Fastest(0.001, 1e8), 3)], ids=str)
def test_shared_memory_gives_the_bits_and_counts_the_bytes_of_the_messages_it_replaces(
    algorithm: Algorithm, workers: int, reduce: Callable[..., object]
) -> None:
    def program(reduce: Callable[..., object]) -> Callable[[WorkerContext], Message]:
        def sums(context: WorkerContext) -> Message:
            rank = rank_of(context.port.name)
            totals = [context.perform(reduce(context.port, algorithm, value_of(rank, size), workers)) for size in (3, 5_000, 200_001)]  # type: ignore[arg-type]
            return Message("sums", tensors=tuple(totals))

        return sums

    ours, theirs = run(program(reduce), workers), run(program(by_messages), workers)
    assert (ours.bytes_sent, ours.messages_sent) == (theirs.bytes_sent, theirs.messages_sent)
    for name, result in ours.results.items():
        other = theirs.results[name]
        assert result is not None
        assert other is not None
        assert all(torch.equal(a, b) for a, b in zip(result.tensors, other.tensors, strict=True))


def test_the_algorithm_is_picked_before_its_order_is_looked_up() -> None:
    async def shared(port: Port, size: int) -> bool:
        return (
            await port.reduce(torch.ones(size), "1", Group.of_workers(3, rank_of(port.name)), Fastest(0.01, 1e7, (Ring(), Tree())))
            is not None
        )

    def program(context: WorkerContext) -> Message:
        results = [context.perform(shared(context.port, size)) for size in (3, 1_000_000)]
        return Message("shared", tuple(results))

    assert {result.numbers for result in run(program, 3).results.values() if result is not None} == {(0.0, 1.0)}


def test_sums_are_made_in_the_programs_own_thread_also_while_other_coroutines_run() -> None:
    async def thread(port: Port) -> int:
        await port.reduce(torch.ones(4), "1", Group.of_workers(2, rank_of(port.name)), Ring())
        return threading.get_ident()

    async def nap(port: Port) -> None:
        await port.sleep(0.2)

    async def spawning(port: Port) -> None:
        await port.spawn("nap", nap(port))

    def program(context: WorkerContext) -> Message:
        here = context.perform(thread(context.port)) == threading.get_ident()
        context.perform(spawning(context.port))
        there = context.perform(thread(context.port)) == threading.get_ident()
        return Message("where", (here, there))

    assert {result.numbers for result in run(program, 2).results.values() if result is not None} == {(1.0, 1.0)}


def test_a_worker_that_waits_for_a_sum_from_one_that_has_ended_gets_an_error() -> None:
    def program(context: WorkerContext) -> None:
        if rank_of(context.port.name):
            context.perform(as_it_comes(context.port, Ring(), torch.ones(5), 2))

    with pytest.raises(DeadlockError, match=r"worker/1 waits for the others in the sum '1': worker/0 has ended"):
        run(program, 2)


@pytest.mark.long
def test_workers_that_wait_for_each_other_in_different_ways_are_named() -> None:
    async def listen(port: Port) -> None:
        await port.receive("word", "worker/0")

    def program(context: WorkerContext) -> None:
        context.perform(listen(context.port) if rank_of(context.port.name) else as_it_comes(context.port, Ring(), torch.ones(5), 2))  # type: ignore[arg-type]

    with pytest.raises(DeadlockError, match=r"worker/0 waits for the others in the sum '1'.*worker/1 waits for 'word'"):
        run(program, 2)


def test_a_killed_worker_is_named_although_the_others_wait_in_shared_memory() -> None:
    def program(context: WorkerContext) -> None:
        if rank_of(context.port.name) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        context.perform(as_it_comes(context.port, Ring(), torch.ones(5), 3))

    with pytest.raises(WorkerFailed, match=re.escape("worker/1")):
        run(program, 3)


def test_waiting_for_a_sum_takes_no_processor() -> None:
    def program(context: WorkerContext) -> Message:
        if rank_of(context.port.name):
            time.sleep(1.0)
        computed, began = time.process_time(), time.monotonic()
        context.perform(as_it_comes(context.port, Ring(), torch.ones(5), 2))
        return Message("seconds", (time.process_time() - computed, time.monotonic() - began))

    result = run(program, 2).results["worker/0"]
    assert result is not None
    computed, waited = result.numbers
    assert computed < waited / 2


def test_where_memory_cannot_be_shared_sums_are_left_to_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    def program(context: WorkerContext) -> Message:
        total = context.perform(as_it_comes(context.port, Ring(), torch.ones(5), 2))
        left = context.perform(only_shared(context.port)) is None
        return Message("sum", (left,), tensors=(total,))

    async def only_shared(port: Port) -> Tensor | None:
        return await port.reduce(torch.ones(5), "2", Group.of_workers(2, rank_of(port.name)), Ring())

    monkeypatch.setattr("polyrhythm.core.processes.spawn.launch.can_share", lambda: False)
    for result in run(program, 2).results.values():
        assert result is not None
        assert result.numbers == (1.0,)
        assert result.tensors[0].tolist() == [2] * 5


@pytest.mark.parametrize("sizes", [(5,), (300_000, 7), (70_000, 70_000, 3, 200_000)])
def test_what_was_to_be_summed_in_place_is_as_it_was_where_the_sum_is_given_up(sizes: tuple[int, ...]) -> None:
    segment = SharedSegment.create(2)
    ours = SharedMemoryReducer(MemoryGroup(segment, 0), workers(2), lambda nbytes, messages: None, restores=True)
    other = MemoryGroup(segment, 1)
    parts = [torch.arange(float(size)) for size in sizes]
    with ThreadPoolExecutor(1) as pool:
        if sum(sizes) > 100_000:  # the other gives its first parts, and is lost then
            pool.submit(other.reduce_parts, [torch.ones(size) for size in sizes[:-1]])
        ours.peer_gone("worker/1", "was lost")
        other.lose(0)
        with pytest.raises(ConnectionAbortedError, match=r"worker/1 was lost|ranks disagree"):
            ours.reduce_in_place(NativeReduceInPlace(parts, 2.0, "1", Group.of_workers(2, 0), Tree()))
    assert all(torch.equal(part, torch.arange(float(size))) for part, size in zip(parts, sizes, strict=True))
    segment.close()


def test_a_sum_that_gets_on_is_no_standstill() -> None:
    segment = SharedSegment.create(2)
    ours, other = SharedMemoryReducer(MemoryGroup(segment, 0), workers(2), lambda nbytes, messages: None), MemoryGroup(segment, 1)
    before = ours.moved
    with ThreadPoolExecutor(1) as pool:
        adding = pool.submit(other.reduce, torch.ones(300_000), torch.ones(300_000))
        while ours.moved == before:
            os.sched_yield()
        met = ours.moved
        ours.reduce(NativeReduce(torch.ones(300_000), "1", Group.of_workers(2, 0), Tree()))
        adding.result()
    assert ours.moved != met
    segment.close()
