"""Coroutines of one actor that are waited for together."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

from polyrhythm.core.kernel.events import Event
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.job import Job, WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.kernel.together import together
from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.errors import DeadlockError, RunError
from polyrhythm.hardware.network import Network
from polyrhythm.topology import Direct

VIRTUAL = Simulator(network=Network.uniform("one second", "1 Gbit/s", "1 s"))
each_runtime = pytest.mark.parametrize("on", [VIRTUAL, Processes(cuda=False)], ids=["simulator", "processes"])


async def no_service(port: Any, record: Any) -> None:
    raise NotImplementedError


def play(program: Any, on: Any, workers: int = 2) -> Any:
    events: list[Event] = []
    return on.execute(Job(workers, 0, program, no_service, lambda _: True), events.append)


async def swap(context: WorkerContext, topic: str, rounds: int = 1) -> str:
    """As many messages to the other worker and back."""
    port = context.port
    other = "worker/1" if port.name == "worker/0" else "worker/0"
    for _ in range(rounds):
        await port.send(other, Message(topic, text=port.name))
        delivery = await port.receive(topic, other)
        assert delivery is not None
    return f"{topic} from {delivery.message.text}"


async def fail(context: WorkerContext) -> str:
    await swap(context, "before")
    raise RunError("this one fails.")


@each_runtime
def test_results_come_in_order_whichever_ends_first(on: Any) -> None:
    def program(context: WorkerContext) -> Message:
        starts = [partial(swap, context, "a", 3), partial(swap, context, "b"), partial(swap, context, "c", 2)]
        return Message("ends", text="; ".join(context.perform(together(context.port, starts))))

    ending = play(program, on)
    assert ending.results["worker/0"].text == "a from worker/1; b from worker/1; c from worker/1"


def test_they_take_as_long_as_the_longest() -> None:
    def program(context: WorkerContext) -> Message:
        context.perform(together(context.port, [partial(swap, context, "a", 3), partial(swap, context, "b", 2)]))
        return Message("ends")

    assert play(program, VIRTUAL).seconds == pytest.approx(3.0, rel=1e-3)


@each_runtime
def test_an_error_in_one_is_raised_though_another_waits_for_ever(on: Any) -> None:
    async def for_ever(context: WorkerContext) -> str:
        await context.port.receive("never")
        return ""

    def program(context: WorkerContext) -> Message:
        with pytest.raises(RunError, match="this one fails"):
            context.perform(together(context.port, [partial(for_ever, context), partial(fail, context)]))
        return Message("ends", text="raised")

    assert play(program, on).results["worker/1"].text == "raised"


def test_a_deadlock_names_what_is_waited_for_and_not_those_who_wait_for_it() -> None:
    async def never(context: WorkerContext, topic: str) -> None:
        await context.port.receive(topic)

    def program(context: WorkerContext) -> Message:
        context.perform(together(context.port, [partial(never, context, "this"), partial(never, context, "that")]))
        return Message("ends")

    with pytest.raises(DeadlockError, match=r"worker/0 \(concurrent 0\) waits for 'this' from anyone; worker/0 \(concurrent 1\) waits"):
        play(program, VIRTUAL)


def test_an_error_of_an_effect_reaches_the_coroutine_that_awaits_it() -> None:
    async def recovers(context: WorkerContext) -> str:
        try:
            await context.port.send("worker/9", Message("x"))
        except RunError:
            return "refused"
        return "sent"

    def program(context: WorkerContext) -> Message:
        [first, _] = context.perform(together(context.port, [partial(recovers, context), partial(swap, context, "a")]))
        return Message("ends", text=first)

    assert play(program, Processes(cuda=False)).results["worker/0"].text == "refused"


def test_native_sums_have_one_order_at_all_workers_whatever_comes_between() -> None:
    """Sums through shared memory have no names: worker 0 comes to the second coroutine's sum first."""

    async def sums(context: WorkerContext, topic: str, before: int) -> float:
        rank = rank_of(context.port.name)
        for number in range(before):
            await swap(context, f"{topic}.{number}")
        value = torch.full((3,), float(len(topic)))
        total = await context.port.reduce(value, topic, Group.of_workers(2, rank), Direct())
        assert total is not None
        return float(total[0])

    def program(context: WorkerContext) -> Message:
        found = context.perform(together(context.port, [partial(sums, context, "a", 5), partial(sums, context, "bb", 0)]))
        return Message("ends", numbers=tuple(found))

    assert play(program, Processes(cuda=False)).results["worker/0"].numbers == (2.0, 4.0)
