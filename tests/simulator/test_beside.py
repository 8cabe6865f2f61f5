"""Coroutines that a program has begun: when they run in virtual time, in which order, and where their errors go."""

from __future__ import annotations

import pytest
import torch

from polyrhythm.errors import DeadlockError, WorkerFailed
from polyrhythm.hardware.devices import Device, Profile
from polyrhythm.hardware.faults import Stall
from polyrhythm.kernel.events import Computed, Waited
from polyrhythm.kernel.job import Stage
from polyrhythm.kernel.message import Message
from polyrhythm.simulator.simulator import Simulator

from .scenes import INSTANT, job, note, play

ONE_FLOP = Device("one operation a second", 1.0)
MATRIX = torch.ones(1, 1)
"""Its product with itself is two operations."""


async def nothing() -> None:
    """Ends at once."""


async def stamp(stage: Stage, times: list[float], seconds: float = 0.0) -> None:
    """Notes when it begins, and lasts `seconds`."""
    times.append(stage.port.now())
    if seconds:
        await stage.port.sleep(seconds)


def test_what_was_begun_starts_after_the_operations_before_it_while_the_device_computes_on() -> None:
    times: list[float] = []

    def program(stage: Stage) -> None:
        MATRIX @ MATRIX
        stage.begin(stamp(stage, times, seconds=1.0), 0.0)
        MATRIX @ MATRIX
        MATRIX @ MATRIX
        stage.begin(stamp(stage, times, seconds=1.0), 0.0)
        MATRIX @ MATRIX
        stage.perform(stamp(stage, times))

    ending, events = play(job(program), Simulator(network=INSTANT, devices=ONE_FLOP))
    assert times == [2.0, 6.0, 8.0]
    assert ending.seconds == 8.0
    assert [event.seconds for event in events if isinstance(event, Computed)] == [8.0]
    assert [event.seconds for event in events if isinstance(event, Waited)] == []


def test_they_run_one_after_the_other_and_perform_waits_for_all() -> None:
    times: list[float] = []

    def program(stage: Stage) -> None:
        stage.begin(stamp(stage, times, seconds=5.0), 0.0)
        MATRIX @ MATRIX
        stage.begin(stamp(stage, times, seconds=4.0), 0.0)
        stage.perform(stamp(stage, times, seconds=1.0))

    ending, events = play(job(program), Simulator(network=INSTANT, devices=ONE_FLOP))
    assert times == [0.0, 5.0, 9.0]
    assert ending.seconds == 10.0
    assert [event.seconds for event in events if isinstance(event, Waited)] == [8.0]


def test_a_step_does_not_wait_for_what_was_begun_in_it() -> None:
    times: list[float] = []

    def program(stage: Stage) -> None:
        for _ in range(2):
            MATRIX @ MATRIX
            stage.begin(stamp(stage, times, seconds=5.0), 0.0)
            MATRIX @ MATRIX
            stage.charge(1)
            times.append(stage.port.now())
        stage.perform(stamp(stage, times))

    play(job(program), Simulator(network=INSTANT, devices=ONE_FLOP))
    assert times == [2.0, 4.0, 7.0, 8.0, 12.0]


def test_a_measured_step_is_a_third_forward_and_then_backward_in_proportion() -> None:
    times: list[float] = []

    def program(stage: Stage) -> None:
        for _ in range(2):
            for done in (0.0, 0.25, 1.0):
                stage.begin(stamp(stage, times), done)
            stage.charge(1)
            stage.perform(stamp(stage, times))

    play(job(program), Simulator(network=INSTANT, devices=Profile("measured", (3.0, 6.0))))
    assert times == pytest.approx([1.0, 1.5, 3.0, 3.0, 5.0, 6.0, 9.0, 9.0])


def test_a_stall_holds_what_was_begun_as_it_holds_the_device() -> None:
    times: list[float] = []

    def program(stage: Stage) -> None:
        for _ in range(2):
            MATRIX @ MATRIX
            stage.begin(stamp(stage, times), 0.0)
        MATRIX @ MATRIX
        stage.perform(stamp(stage, times))

    faults = (Stall("worker/0", at=3.0, duration=10.0),)
    play(job(program), Simulator(network=INSTANT, devices=ONE_FLOP, faults=faults))
    assert times == [2.0, 14.0, 16.0]


def test_an_error_is_raised_by_the_next_perform_and_what_was_begun_after_it_never_starts() -> None:
    times: list[float] = []

    async def trouble() -> None:
        raise KeyError("lost in backward")

    def program(stage: Stage) -> Message:
        stage.begin(stamp(stage, times), 0.0)
        stage.begin(trouble(), 0.0)
        stage.begin(stamp(stage, times), 0.0)
        with pytest.raises(KeyError, match="lost in backward"):
            stage.perform(stamp(stage, times))
        stage.begin(stamp(stage, times), 0.0)
        stage.perform(nothing())
        return note(len(times))

    ending, _ = play(job(program), Simulator(network=INSTANT))
    assert ending.results["worker/0"] == note(2)


def test_a_program_that_fails_leaves_nothing_that_was_begun() -> None:
    def program(stage: Stage) -> None:
        stage.begin(stage_sleeps(stage), 0.0)
        raise ValueError("in backward")

    with pytest.raises(WorkerFailed, match="in backward"):
        play(job(program, program), Simulator(network=INSTANT))


def test_what_nobody_waits_for_ends_with_its_program() -> None:
    times: list[float] = []

    def program(stage: Stage) -> None:
        stage.begin(stage_sleeps(stage), 0.0)
        stage.begin(stamp(stage, times), 0.0)

    ending, _ = play(job(program), Simulator(network=INSTANT))
    assert (ending.seconds, times) == (0.0, [])


async def stage_sleeps(stage: Stage) -> None:
    await stage.port.sleep(1.0)


def test_it_may_be_begun_in_a_hook_of_backward() -> None:
    heard: list[str] = []

    async def talk(stage: Stage, other: str) -> None:
        await stage.port.send(other, Message("gradient"))
        delivery = await stage.port.receive("gradient", other)
        assert delivery is not None
        heard.append(delivery.sender)

    def program(stage: Stage) -> None:
        other = f"worker/{1 - int(stage.port.name[-1])}"
        weight = torch.nn.Parameter(torch.ones(2))
        weight.register_post_accumulate_grad_hook(lambda _: stage.begin(talk(stage, other), 1.0))
        weight.sum().backward()
        stage.perform(nothing())

    play(job(program, program), Simulator(network=INSTANT))
    assert sorted(heard) == ["worker/0", "worker/1"]


def test_a_deadlock_names_what_was_begun() -> None:
    async def listen(stage: Stage) -> None:
        await stage.port.receive("word", "worker/1")

    def program(stage: Stage) -> None:
        stage.begin(listen(stage), 0.0)
        stage.perform(nothing())

    with pytest.raises(DeadlockError, match=r"worker/0 \(in backward\) waits for 'word' from worker/1"):
        play(job(program, lambda stage: stage.perform(wait(stage))), Simulator(network=INSTANT))


async def wait(stage: Stage) -> None:
    await stage.port.receive("never")


@pytest.mark.parametrize("shuffle", [None, *range(5)])
def test_simultaneous_ones_keep_their_order(shuffle: int | None) -> None:
    order: list[tuple[str, int]] = []

    async def mark(stage: Stage, number: int) -> None:
        order.append((stage.port.name, number))

    def program(stage: Stage) -> None:
        for number in range(4):
            stage.begin(mark(stage, number), 0.0)
        stage.perform(nothing())

    play(job(program, program), Simulator(network=INSTANT, shuffle_ties=shuffle))
    for name in ("worker/0", "worker/1"):
        assert [number for who, number in order if who == name] == [0, 1, 2, 3]
