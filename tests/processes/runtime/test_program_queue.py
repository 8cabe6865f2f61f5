"""What a program begins in a real process: it runs while the program computes, in one order, and sums block no loop."""

import os
import signal
import threading
import time
from collections.abc import Callable

import pytest
import torch

from polyrhythm.core.kernel.events import Recorder
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.job import Ending, Job, WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.processes.spawn.launch import Processes
from polyrhythm.errors import DeadlockError, WorkerFailed
from polyrhythm.topology import Ring


async def no_service(port: Port, record: Recorder) -> None:
    return None


def run(program: Callable[[WorkerContext], Message | None], workers: int, patience: float = 30.0) -> Ending:
    return Processes(patience=patience).execute(Job(workers, 0, program, no_service, lambda name: True), lambda event: None)


async def nothing() -> None:
    """Ends at once."""


def numbers(ending: Ending) -> list[tuple[float, ...]]:
    return [result.numbers for result in ending.results.values() if result is not None]


def test_what_was_started_runs_while_the_program_computes() -> None:
    def program(context: WorkerContext) -> Message:
        met = threading.Event()
        other = f"worker/{1 - rank_of(context.port.name)}"

        async def talk() -> None:
            await context.port.send(other, Message("word"))
            await context.port.receive("word", other)
            met.set()

        context.begin(talk(), 0.0)
        return Message("met", (met.wait(20.0),))

    assert numbers(run(program, 2)) == [(True,), (True,)]


def test_they_run_one_after_the_other_and_perform_comes_after_all() -> None:
    def program(context: WorkerContext) -> Message:
        order: list[float] = []

        async def mark(number: int) -> None:
            order.append(number)
            await context.port.sleep(0.01)
            order.append(number + 0.5)

        for number in range(3):
            context.begin(mark(number), 0.0)
        context.perform(mark(3))
        return Message("order", tuple(order))

    assert numbers(run(program, 1)) == [(0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5)]


def test_an_error_is_raised_by_the_next_perform_and_what_was_started_after_it_never_starts() -> None:
    def program(context: WorkerContext) -> Message:
        order: list[float] = []

        async def mark(number: int) -> None:
            order.append(number)

        async def trouble() -> None:
            await context.port.sleep(0.01)
            raise KeyError("lost in backward")

        context.begin(mark(0), 0.0)
        context.begin(trouble(), 0.0)
        context.begin(mark(1), 0.0)
        with pytest.raises(KeyError, match="lost in backward"):
            context.perform(mark(2))
        context.begin(mark(3), 0.0)
        context.perform(mark(4))
        return Message("order", tuple(order))

    assert numbers(run(program, 1)) == [(0, 3, 4)]


def test_sums_that_were_started_are_made_in_one_order_in_a_thread_of_their_own() -> None:
    def program(context: WorkerContext) -> Message:
        totals: list[float] = []

        async def add(number: int) -> None:
            group = Group.of_workers(2, rank_of(context.port.name))
            total = await context.port.reduce(torch.full((number,), float(number)), str(number), group, Ring())
            assert total is not None
            totals.append(total.sum().item())

        for number in range(1, 6):
            context.begin(add(number), 0.0)
        context.perform(add(6))
        return Message("totals", tuple(totals))

    assert numbers(run(program, 2)) == [tuple(2.0 * number * number for number in range(1, 7))] * 2


async def spawning(port: Port, coroutine: object) -> None:
    await port.spawn("concurrent", coroutine)  # type: ignore[arg-type]


def test_the_loop_responds_while_a_sum_is_waited_for() -> None:
    def program(context: WorkerContext) -> None:
        port = context.port

        async def add() -> None:
            await port.reduce(torch.ones(3), "sum", Group.of_workers(2, rank_of(port.name)), Ring())

        async def respond() -> None:
            await port.receive("question", "worker/1")
            await port.send("worker/1", Message("response"))

        async def request() -> None:
            await port.send("worker/0", Message("question"))
            await port.receive("response", "worker/0")

        if rank_of(port.name) == 0:
            context.perform(spawning(port, respond()))
            context.begin(add(), 0.0)
            context.perform(nothing())  # blocks until worker 1 comes to the sum, which it does after it was answered
        else:
            time.sleep(0.3)
            context.perform(request())
            context.perform(add())

    run(program, 2)


def test_a_program_that_computes_is_not_taken_for_one_that_waits_for_ever() -> None:
    def program(context: WorkerContext) -> None:
        async def add() -> None:
            await context.port.reduce(torch.ones(3), "sum", Group.of_workers(2, rank_of(context.port.name)), Ring())

        if rank_of(context.port.name):
            time.sleep(2.0)
        context.begin(add(), 0.0)
        if not rank_of(context.port.name):
            time.sleep(2.0)
        context.perform(nothing())

    run(program, 2, patience=0.5)


def test_workers_whose_sums_and_messages_cross_are_named() -> None:
    async def listen(port: Port) -> None:
        await port.receive("word", "worker/0")

    def program(context: WorkerContext) -> None:
        async def add() -> None:
            await context.port.reduce(torch.ones(3), "sum", Group.of_workers(2, rank_of(context.port.name)), Ring())

        context.begin(listen(context.port) if rank_of(context.port.name) else add(), 0.0)
        context.perform(nothing())

    with pytest.raises(DeadlockError, match=r"worker/0 waits for the others in the sum 'sum'.*worker/1 waits for 'word'"):
        run(program, 2, patience=2.0)


def test_a_worker_that_is_killed_in_backward_is_named_although_exchanges_are_under_way() -> None:
    def program(context: WorkerContext) -> None:
        async def add() -> None:
            await context.port.reduce(torch.ones(3), "sum", Group.of_workers(3, rank_of(context.port.name)), Ring())

        weight = torch.nn.Parameter(torch.ones(2))
        if rank_of(context.port.name) == 1:
            weight.register_post_accumulate_grad_hook(lambda _: os.kill(os.getpid(), signal.SIGKILL))
        else:
            weight.register_post_accumulate_grad_hook(lambda _: context.begin(add(), 1.0))
        weight.sum().backward()
        context.perform(nothing())

    with pytest.raises(WorkerFailed, match="worker/1"):
        run(program, 3)


def test_a_program_that_fails_in_backward_raises_its_error_as_ever() -> None:
    def program(context: WorkerContext) -> None:
        async def add() -> None:
            await context.port.reduce(torch.ones(3), "sum", Group.of_workers(2, rank_of(context.port.name)), Ring())

        context.begin(add(), 0.0)
        if rank_of(context.port.name):
            raise ValueError("in backward")
        context.perform(nothing())

    with pytest.raises(WorkerFailed, match="worker/1 failed: ValueError: in backward"):
        run(program, 2)
