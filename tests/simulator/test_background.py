"""Coroutines that a program has started: when they run in virtual time, in which order, and where their errors go."""

from __future__ import annotations

import pytest
import torch

from polyrhythm.core.kernel.events import Computed, Waited
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.errors import DeadlockError, WorkerFailed
from polyrhythm.hardware.devices import Device, Profile
from polyrhythm.hardware.faults import Stall

from .scenes import INSTANT, job, note, play

ONE_FLOP = Device("one operation a second", 1.0)
MATRIX = torch.ones(1, 1)
"""Its product with itself is two operations."""


async def nothing() -> None:
    """Ends at once."""


async def stamp(context: WorkerContext, times: list[float], seconds: float = 0.0) -> None:
    """Notes when it begins, and lasts `seconds`."""
    times.append(context.port.now())
    if seconds:
        await context.port.sleep(seconds)


def test_what_was_started_runs_after_the_operations_before_it_while_the_device_computes_on() -> None:
    times: list[float] = []

    def program(context: WorkerContext) -> None:
        MATRIX @ MATRIX
        context.begin(stamp(context, times, seconds=1.0), 0.0)
        MATRIX @ MATRIX
        MATRIX @ MATRIX
        context.begin(stamp(context, times, seconds=1.0), 0.0)
        MATRIX @ MATRIX
        context.perform(stamp(context, times))

    ending, events = play(job(program), Simulator(network=INSTANT, devices=ONE_FLOP))
    assert times == [2.0, 6.0, 8.0]
    assert ending.seconds == 8.0
    assert [event.seconds for event in events if isinstance(event, Computed)] == [8.0]
    assert [event.seconds for event in events if isinstance(event, Waited)] == []


def test_they_run_one_after_the_other_and_perform_waits_for_all() -> None:
    times: list[float] = []

    def program(context: WorkerContext) -> None:
        context.begin(stamp(context, times, seconds=5.0), 0.0)
        MATRIX @ MATRIX
        context.begin(stamp(context, times, seconds=4.0), 0.0)
        context.perform(stamp(context, times, seconds=1.0))

    ending, events = play(job(program), Simulator(network=INSTANT, devices=ONE_FLOP))
    assert times == [0.0, 5.0, 9.0]
    assert ending.seconds == 10.0
    assert [event.seconds for event in events if isinstance(event, Waited)] == [8.0]


def test_a_step_does_not_wait_for_what_was_started_in_it() -> None:
    times: list[float] = []

    def program(context: WorkerContext) -> None:
        for _ in range(2):
            MATRIX @ MATRIX
            context.begin(stamp(context, times, seconds=5.0), 0.0)
            MATRIX @ MATRIX
            context.charge(1)
            times.append(context.port.now())
        context.perform(stamp(context, times))

    play(job(program), Simulator(network=INSTANT, devices=ONE_FLOP))
    assert times == [2.0, 4.0, 7.0, 8.0, 12.0]


def test_a_measured_step_is_a_third_forward_and_then_backward_in_proportion() -> None:
    times: list[float] = []

    def program(context: WorkerContext) -> None:
        for _ in range(2):
            for done in (0.0, 0.25, 1.0):
                context.begin(stamp(context, times), done)
            context.charge(1)
            context.perform(stamp(context, times))

    play(job(program), Simulator(network=INSTANT, devices=Profile("measured", (3.0, 6.0))))
    assert times == pytest.approx([1.0, 1.5, 3.0, 3.0, 5.0, 6.0, 9.0, 9.0])


def test_a_stall_holds_what_was_started_as_it_holds_the_device() -> None:
    times: list[float] = []

    def program(context: WorkerContext) -> None:
        for _ in range(2):
            MATRIX @ MATRIX
            context.begin(stamp(context, times), 0.0)
        MATRIX @ MATRIX
        context.perform(stamp(context, times))

    faults = (Stall("worker/0", at=3.0, duration=10.0),)
    play(job(program), Simulator(network=INSTANT, devices=ONE_FLOP, faults=faults))
    assert times == [2.0, 14.0, 16.0]


def test_an_error_is_raised_by_the_next_perform_and_what_was_started_after_it_never_starts() -> None:
    times: list[float] = []

    async def trouble() -> None:
        raise KeyError("lost in backward")

    def program(context: WorkerContext) -> Message:
        context.begin(stamp(context, times), 0.0)
        context.begin(trouble(), 0.0)
        context.begin(stamp(context, times), 0.0)
        with pytest.raises(KeyError, match="lost in backward"):
            context.perform(stamp(context, times))
        context.begin(stamp(context, times), 0.0)
        context.perform(nothing())
        return note(len(times))

    ending, _ = play(job(program), Simulator(network=INSTANT))
    assert ending.results["worker/0"] == note(2)


def test_a_program_that_fails_leaves_nothing_that_was_started() -> None:
    def program(context: WorkerContext) -> None:
        context.begin(stage_sleeps(context), 0.0)
        raise ValueError("in backward")

    with pytest.raises(WorkerFailed, match="in backward"):
        play(job(program, program), Simulator(network=INSTANT))


def test_what_no_worker_waits_for_ends_with_its_program() -> None:
    times: list[float] = []

    def program(context: WorkerContext) -> None:
        context.begin(stage_sleeps(context), 0.0)
        context.begin(stamp(context, times), 0.0)

    ending, _ = play(job(program), Simulator(network=INSTANT))
    assert (ending.seconds, times) == (0.0, [])


async def stage_sleeps(context: WorkerContext) -> None:
    await context.port.sleep(1.0)


def test_it_may_be_started_in_a_hook_of_backward() -> None:
    heard: list[str] = []

    async def talk(context: WorkerContext, other: str) -> None:
        await context.port.send(other, Message("gradient"))
        delivery = await context.port.receive("gradient", other)
        assert delivery is not None
        heard.append(delivery.sender)

    def program(context: WorkerContext) -> None:
        other = f"worker/{1 - int(context.port.name[-1])}"
        weight = torch.nn.Parameter(torch.ones(2))
        weight.register_post_accumulate_grad_hook(lambda _: context.begin(talk(context, other), 1.0))
        weight.sum().backward()
        context.perform(nothing())

    play(job(program, program), Simulator(network=INSTANT))
    assert sorted(heard) == ["worker/0", "worker/1"]


def test_a_deadlock_names_what_was_started() -> None:
    async def listen(context: WorkerContext) -> None:
        await context.port.receive("word", "worker/1")

    def program(context: WorkerContext) -> None:
        context.begin(listen(context), 0.0)
        context.perform(nothing())

    with pytest.raises(DeadlockError, match=r"worker/0 \(in backward\) waits for 'word' from worker/1"):
        play(job(program, lambda context: context.perform(wait(context))), Simulator(network=INSTANT))


async def wait(context: WorkerContext) -> None:
    await context.port.receive("never")


@pytest.mark.parametrize("shuffle", [None, *range(5)])
def test_simultaneous_ones_keep_their_order(shuffle: int | None) -> None:
    order: list[tuple[str, int]] = []

    async def mark(context: WorkerContext, number: int) -> None:
        order.append((context.port.name, number))

    def program(context: WorkerContext) -> None:
        for number in range(4):
            context.begin(mark(context, number), 0.0)
        context.perform(nothing())

    play(job(program, program), Simulator(network=INSTANT, shuffle_ties=shuffle))
    for name in ("worker/0", "worker/1"):
        assert [number for who, number in order if who == name] == [0, 1, 2, 3]
