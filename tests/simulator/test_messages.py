"""Messages in virtual time: when they arrive, in which order, and what a wait is."""

from __future__ import annotations

import pytest
import torch

from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.message import Delivery, Message, wire_bytes
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.simulator.simulator import Instant, Simulator
from polyrhythm.errors import CompositionError, WorkerFailed
from polyrhythm.hardware.network import Network

from .scenes import INSTANT, PLAIN, job, note, play, silent


def test_a_ping_pong_takes_exactly_latency_and_bytes_over_bandwidth() -> None:
    ball = Message("x", tensors=(torch.zeros(500),))

    def ping(context: WorkerContext) -> None:
        async def rally() -> None:
            for _ in range(3):
                await context.port.send("worker/1", ball)
                await context.port.receive("x")

        context.perform(rally())

    def pong(context: WorkerContext) -> None:
        async def rally() -> None:
            for _ in range(3):
                delivery = await context.port.receive("x", sender="worker/0")
                assert delivery is not None
                await context.port.send(delivery.sender, delivery.message)

        context.perform(rally())

    ending, _ = play(job(ping, pong), Simulator(network=PLAIN))
    assert ending.seconds == pytest.approx(6 * (0.5 + wire_bytes(ball) / 1000), rel=1e-12)
    assert ending.bytes_sent == 6 * wire_bytes(ball)
    assert ending.messages_sent == 6


@pytest.mark.parametrize("shuffle", [None, 1, 2, 3])
@pytest.mark.parametrize("network", [INSTANT, PLAIN], ids=["instant", "plain"])
def test_messages_between_two_actors_arrive_in_the_order_sent(network: Network | Instant, shuffle: int | None) -> None:
    heard: list[float] = []

    def speak(context: WorkerContext) -> None:
        async def all_at_once() -> None:
            for number in range(20):
                size = 100 if number % 3 else 1
                await context.port.send("worker/1", Message("x", (number,), "-" * size))

        context.perform(all_at_once())

    def hear(context: WorkerContext) -> None:
        async def each() -> None:
            for _ in range(20):
                delivery = await context.port.receive("x")
                assert delivery is not None
                heard.append(delivery.message.numbers[0])

        context.perform(each())

    play(job(speak, hear), Simulator(network=network, shuffle_ties=shuffle))
    assert heard == list(range(20))


def test_tensors_are_handed_over_by_reference() -> None:
    value = torch.ones(3)
    got: list[Delivery | None] = []

    def speak(context: WorkerContext) -> None:
        async def once() -> None:
            await context.port.send("worker/1", Message("x", tensors=(value,)))

        context.perform(once())

    def hear(context: WorkerContext) -> None:
        async def once() -> None:
            got.append(await context.port.receive("x"))

        context.perform(once())

    play(job(speak, hear), Simulator(network=PLAIN))
    assert got[0] is not None
    assert got[0].message.tensors[0] is value


def test_a_wait_with_a_timeout_ends_at_that_time_and_one_of_zero_only_looks() -> None:
    seen: list[tuple[float, bool]] = []

    def late(context: WorkerContext) -> None:
        async def send() -> None:
            await context.port.sleep(5.0)
            await context.port.send("worker/1", note(1))

        context.perform(send())

    def impatient(context: WorkerContext) -> None:
        port = context.port

        async def wait() -> None:
            for timeout in (0, 2.0, 60.0, 0):
                delivery = await port.receive("x", timeout=timeout)
                seen.append((port.now(), delivery is not None))

        context.perform(wait())

    ending, _ = play(job(late, impatient), Simulator(network=PLAIN))
    arrival = 5.5 + wire_bytes(note(1)) / 1000
    assert seen == [(0.0, False), (2.0, False), (pytest.approx(arrival), True), (pytest.approx(arrival), False)]
    assert ending.seconds == pytest.approx(arrival), "the timer of a wait that is over moves no time"


def test_many_generous_timeouts_leave_nothing_behind() -> None:
    def echo(context: WorkerContext) -> None:
        async def once() -> None:
            await context.port.send(context.port.name, note())
            assert await context.port.receive("x", timeout=1e6) is not None

        for _ in range(5000):
            context.perform(once())

    ending, _ = play(job(echo), Simulator(network=INSTANT))
    assert ending.seconds == 0.0


def test_a_flush_waits_until_the_last_byte_has_left_and_not_until_it_has_arrived() -> None:
    left: list[float] = []
    parcel = Message("x", text="-" * 1000)

    def speak(context: WorkerContext) -> None:
        async def twice() -> None:
            await context.port.flush()
            left.append(context.port.now())
            for _ in range(2):
                await context.port.send("worker/1", parcel)
                await context.port.flush()
                left.append(context.port.now())

        context.perform(twice())

    play(job(speak, silent), Simulator(network=PLAIN))
    assert left == pytest.approx([0, wire_bytes(parcel) / 1000, 2 * wire_bytes(parcel) / 1000])


def test_a_message_to_an_unknown_actor_is_refused_by_name() -> None:
    def speak(context: WorkerContext) -> None:
        async def lost() -> None:
            await context.port.send("worker/7", note())

        context.perform(lost())

    with pytest.raises(
        CompositionError, match="worker/0 sent a message to 'worker/7', which does not exist: the run has worker/0, worker/1"
    ):
        play(job(speak, silent), Simulator(network=PLAIN))


@pytest.mark.parametrize("network", [PLAIN, INSTANT], ids=["plain", "instant"])
def test_ways_that_are_idle_and_topics_that_are_read_are_forgotten(network: Network | Instant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyrhythm.core.simulator.mailroom.REMEMBERED", 10)
    monkeypatch.setattr("polyrhythm.core.simulator.flows.REMEMBERED", 10)
    kept: list[int] = []

    def program(context: WorkerContext) -> None:
        async def everyone(turn: int) -> None:
            for rank in range(20):
                await context.port.send(f"worker/{rank}", Message(f"turn/{turn}"))
            for _ in range(20):
                await context.port.receive(f"turn/{turn}")
            await context.port.receive("never", timeout=0.001)

        for turn in range(3):
            context.perform(everyone(turn))
        actor = context.actor  # type: ignore[attr-defined]
        kept.append(len(actor.channels) + len(actor.mail) + len(actor.waiters))

    play(job(*[program] * 20), Simulator(network=network))
    assert sum(kept) <= 10


def test_those_who_flush_at_one_time_go_on_in_the_order_in_which_they_came() -> None:
    seen: list[str] = []

    def program(context: WorkerContext) -> None:
        async def send() -> None:
            await context.port.send("server/0", note())
            await context.port.flush()
            seen.append(context.port.name)

        context.perform(send())

    async def serve(port: Port) -> None:
        await port.receive("never")

    play(job(*[program] * 5, servers=(serve,)), Simulator(network=PLAIN))
    assert seen == [f"worker/{rank}" for rank in range(5)]


def test_a_time_that_is_none_is_an_error_of_who_gave_it() -> None:
    def program(context: WorkerContext) -> None:
        async def sleep() -> None:
            await context.port.sleep(float("nan"))

        context.perform(sleep())

    with pytest.raises(WorkerFailed, match="nan s is not a time"):
        play(job(program), Simulator(network=INSTANT))
