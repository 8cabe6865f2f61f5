"""When steps pass: each at once, with what a step costs; and what is charged in addition to them."""

from __future__ import annotations

import pytest
import torch

from polyrhythm.core.kernel.events import AnyEvent, Computed
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.errors import WorkerFailed, WorkloadError
from polyrhythm.hardware.devices import Device, Profile
from polyrhythm.hardware.faults import Crash, Stall
from polyrhythm.hardware.fleet import Fleet, Jitter

from .scenes import INSTANT, job, play, silent

ONE_FLOP = Device("one operation a second", 1.0)
DEAR = Device("one operation a second, after ten", 1.0, overhead_seconds=10.0)
MATRIX = torch.ones(1, 1)
"""Its product with itself is two operations."""


async def nothing() -> None:
    """A aggregation without a word."""


def ends(events: list[AnyEvent]) -> list[float]:
    """When pieces of computing ended."""
    return [event.time for event in events if isinstance(event, Computed)]


@pytest.mark.parametrize(
    ("device", "expected"),
    [(ONE_FLOP, [2.0, 4.0, 6.0]), (DEAR, [12.0, 24.0, 36.0]), (Profile("measured", (1.0, 5.0)), [1.0, 6.0, 7.0])],
    ids=["counted", "with overhead", "measured"],
)
def test_steps_pass_one_by_one_though_nothing_is_sent(device: Device | Profile, expected: list[float]) -> None:
    seen: list[float] = []

    def program(context: WorkerContext) -> None:
        for _ in range(3):
            _ = MATRIX @ MATRIX
            context.charge(1)
            seen.append(context.port.now())

    ending, events = play(job(program), Simulator(network=INSTANT, devices=device))
    assert seen == ends(events) == expected
    assert ending.seconds == expected[-1]


def test_each_step_draws_its_own_jitter_whether_or_not_its_worker_speaks() -> None:
    def program(every: int) -> list[float]:
        def steps(context: WorkerContext) -> None:
            for step in range(1, 7):
                _ = MATRIX @ MATRIX
                context.charge(1)
                if step % every == 0:
                    context.perform(nothing())

        return ends(play(job(steps), Simulator(network=INSTANT, devices=Fleet((DEAR,), (Jitter(0.5),)), seed=1))[1])

    assert program(every=1) == program(every=6)
    assert len(set(program(every=6))) == 6


def test_work_that_is_no_step_pays_no_overhead_but_its_operations() -> None:
    def program(context: WorkerContext) -> None:
        _ = MATRIX @ MATRIX
        context.perform(nothing())  # builds a model
        _ = MATRIX @ MATRIX
        context.charge(1)
        context.perform(nothing())
        _ = MATRIX @ MATRIX  # evaluates

    ending, events = play(job(program), Simulator(network=INSTANT, devices=DEAR))
    assert ends(events) == [2.0, 14.0, 16.0]
    assert ending.seconds == 16.0


def test_a_step_without_operations_has_its_overhead() -> None:
    ending, _ = play(job(lambda context: [context.charge(1) for _ in range(4)] and None), Simulator(network=INSTANT, devices=DEAR))
    assert ending.seconds == 40.0


def test_others_go_on_while_a_step_passes() -> None:
    order: list[tuple[str, float]] = []

    def program(context: WorkerContext) -> None:
        for _ in range(3):
            context.charge(1)
            order.append((context.port.name, context.port.now()))

    fleet = Fleet((Profile("slow", (2.0,)), Profile("fast", (1.25,))))
    play(job(program, program), Simulator(network=INSTANT, devices=fleet))
    assert order == [("worker/1", 1.25), ("worker/0", 2.0), ("worker/1", 2.5), ("worker/1", 3.75), ("worker/0", 4.0), ("worker/0", 6.0)]


def test_merging_passes_where_it_was_measured() -> None:
    seen: list[float] = []

    def program(context: WorkerContext) -> None:
        context.charge(1)
        context.charge_merge(4)
        seen.append(context.port.now())

    play(job(program), Simulator(network=INSTANT, devices=Profile("measured", (1.0,), seconds_per_contribution=0.25)))
    assert seen == [2.0]


def test_a_step_that_costs_nothing_lets_no_other_worker_continue() -> None:
    order: list[str] = []

    def program(context: WorkerContext) -> None:
        for _ in range(3):
            context.charge(1)
            order.append(context.port.name)

    for free in (ONE_FLOP, Profile("free", (0.0,))):
        order.clear()
        play(job(program, program), Simulator(network=INSTANT, devices=free))
        assert order == ["worker/0"] * 3 + ["worker/1"] * 3


def test_a_stall_holds_a_step_that_sends_nothing() -> None:
    def program(context: WorkerContext) -> None:
        for _ in range(3):
            context.charge(1)

    faults = (Stall("worker/0", at=1.5, duration=10.0),)
    _, events = play(job(program), Simulator(network=INSTANT, devices=Profile("measured", (1.0,)), faults=faults))
    assert ends(events) == [1.0, 12.0, 13.0]


def test_a_worker_that_crashes_in_a_step_takes_no_further_one() -> None:
    seen: list[str] = []

    def program(context: WorkerContext) -> None:
        try:
            for _ in range(3):
                context.charge(1)
                seen.append("step")
        finally:
            seen.append("cleared up")
            context.charge(1)
            seen.append("never")

    faults = (Crash("worker/0", at=1.5),)
    ending, _ = play(job(program, silent, survives=True), Simulator(network=INSTANT, devices=Profile("measured", (1.0,)), faults=faults))
    assert seen == ["step", "cleared up"]
    assert ending.lost == ["worker/0"]


def test_a_step_inside_backward_is_refused_with_the_remedy() -> None:
    def program(context: WorkerContext) -> None:
        weight = torch.nn.Parameter(torch.ones(2))
        weight.register_post_accumulate_grad_hook(lambda _: context.charge(1))
        weight.sum().backward()

    with pytest.raises((WorkloadError, WorkerFailed), match=r"inside backward\(\)"):
        play(job(program), Simulator(network=INSTANT, devices=DEAR))
