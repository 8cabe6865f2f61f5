"""Injected faults: crashes, stalls, cuts and losses."""

from __future__ import annotations

import math

import pytest

from polyrhythm.core.kernel.events import Faulted
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.message import Message, wire_bytes
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.errors import CompositionError, DeadlockError, UnknownNameError, WorkerFailed
from polyrhythm.hardware.devices import Device
from polyrhythm.hardware.faults import Crash, Disconnect, Drop, Stall
from polyrhythm.hardware.fleet import Fleet
from polyrhythm.hardware.network import Network

from .scenes import INSTANT, PLAIN, Program, job, note, play, silent

SPEED = Fleet((Device("one", 1000.0),))


def sends(count: int, every: float = 1.0, text: str = "") -> Program:
    def program(context: WorkerContext) -> None:
        async def send() -> None:
            for number in range(count):
                await context.port.send("worker/1", note(number, text=text))
                await context.port.sleep(every)

        context.perform(send())

    return program


def hears(seen: list[tuple[float, float]], until: float) -> Program:
    """Notes when which number came, until nothing has come for `until` seconds."""

    def program(context: WorkerContext) -> None:
        async def hear() -> None:
            while (delivery := await context.port.receive("x", timeout=until)) is not None:
                seen.append((context.port.now(), delivery.message.numbers[0]))

        context.perform(hear())

    return program


def test_a_crash_of_an_essential_actor_ends_the_run_with_its_name_and_time() -> None:
    with pytest.raises(WorkerFailed, match=r"worker/0 failed: it crashed at 2\.5 s of virtual time") as caught:
        play(job(sends(10), silent), Simulator(network=PLAIN, faults=(Crash("worker/0", at=2.5),)))
    assert caught.value.actor == "worker/0"


def test_an_actor_that_is_not_essential_disappears_and_the_others_are_notified() -> None:
    news: list[Message] = []
    closed: list[str] = []

    def falls(context: WorkerContext) -> None:
        async def wait() -> None:
            try:
                await context.port.receive("never")
            finally:
                closed.append("aggregation")

        try:
            context.perform(wait())
        finally:
            closed.append("program")

    def survives(context: WorkerContext) -> None:
        async def listen() -> None:
            delivery = await context.port.receive("lost")
            assert delivery is not None
            news.append(delivery.message)
            await context.port.send("worker/0", note())
            await context.port.sleep(10.0)

        context.perform(listen())

    given = job(falls, survives, survives, survives=True)
    ending, events = play(given, Simulator(network=PLAIN, faults=(Crash("worker/0", at=2.5),)))
    assert ending.lost == ["worker/0"]
    assert list(ending.results) == ["worker/1", "worker/2"]
    assert news == [Message("lost", text="worker/0")] * 2
    assert closed == ["aggregation", "program"]
    assert [event for event in events if isinstance(event, Faulted)] == [Faulted(2.5, "worker/0", "crashed")]
    assert ending.seconds == 12.5


def test_a_crash_of_the_last_that_runs_ends_the_run() -> None:
    ending, _ = play(job(sends(100), silent, survives=True), Simulator(network=PLAIN, faults=(Crash("worker/0", at=2.5),)))
    assert ending.lost == ["worker/0"]


def test_news_of_a_crash_reaches_everybody_at_once_whatever_the_latency_is() -> None:
    heard: list[float] = []

    def listens(context: WorkerContext) -> None:
        async def listen() -> None:
            await context.port.receive("lost")
            heard.append(context.port.now())

        context.perform(listen())

    far = Network.uniform("far", 1000.0, 60.0)
    play(job(sends(10), listens, listens, survives=True), Simulator(network=far, faults=(Crash("worker/0", at=2.5),)))
    assert heard == [2.5, 2.5]


@pytest.mark.parametrize("detection", [0.0, 0.25, 4.0])
def test_a_crash_is_noticed_after_the_time_of_detection(detection: float) -> None:
    heard: list[float] = []
    seen: list[tuple[float, float]] = []

    def listens(context: WorkerContext) -> None:
        async def listen() -> None:
            await context.port.receive("lost")
            heard.append(context.port.now())

        context.perform(listen())

    faults = (Crash("worker/0", at=2.5),)
    simulator = Simulator(network=INSTANT, faults=faults, detection=detection)
    ending, events = play(job(sends(10), hears(seen, 9.0), listens, survives=True), simulator)
    assert heard == [2.5 + detection]
    assert [at for at, _ in seen] == [0.0, 1.0, 2.0], "it is dead at once"
    assert ending.lost == ["worker/0"]
    assert [event for event in events if isinstance(event, Faulted)] == [Faulted(2.5, "worker/0", "crashed")]
    with pytest.raises(WorkerFailed, match=r"worker/0 failed: it crashed at 2\.5 s of virtual time, as scheduled"):
        play(job(sends(10), silent), simulator)
    ending, _ = play(job(sends(10), silent, survives=True), simulator)
    assert ending.lost == ["worker/0"]


@pytest.mark.parametrize("name", ["detection", "startup"])
@pytest.mark.parametrize("seconds", [-1.0, math.inf])
def test_seconds_that_cannot_pass_are_refused(name: str, seconds: float) -> None:
    with pytest.raises(CompositionError, match=rf"Simulator\({name}={seconds}\) is no time"):
        Simulator(**{name: seconds})  # type: ignore[arg-type]


def test_what_a_crashed_actor_had_not_wholly_sent_is_lost() -> None:
    seen: list[tuple[float, float]] = []
    parcels = [note(number, text="-" * 1000) for number in range(2)]
    size = wire_bytes(parcels[0]) / 1000

    def sends_both(context: WorkerContext) -> None:
        async def send() -> None:
            for parcel in parcels:
                await context.port.send("worker/1", parcel)
            await context.port.sleep(100.0)

        context.perform(send())

    given = job(sends_both, hears(seen, 10.0), survives=True)
    play(given, Simulator(network=PLAIN, faults=(Crash("worker/0", at=1.2 * size),)))
    assert seen == [(pytest.approx(size + 0.5), 0.0)]


def test_a_stall_delays_computing_and_handling() -> None:
    seen: list[float] = []

    def computes(context: WorkerContext) -> None:
        async def work() -> None:
            await context.port.compute(4000.0)
            seen.append(context.port.now())
            await context.port.receive("x")
            seen.append(context.port.now())

        context.perform(work())

    def speaks(context: WorkerContext) -> None:
        async def speak() -> None:
            await context.port.sleep(8.0)
            await context.port.send("worker/0", note())

        context.perform(speak())

    stalls = (Stall("worker/0", at=1.0, duration=2.0), Stall("worker/0", at=7.5, duration=20.0))
    _, events = play(job(computes, speaks), Simulator(network=INSTANT, devices=SPEED, faults=stalls))
    assert seen == [6.0, 27.5]
    assert [event.what for event in events if isinstance(event, Faulted)] == ["stalls for 2 s", "stalls for 20 s"]


def test_a_cut_holds_bytes_back_and_lets_them_go_on() -> None:
    seen: list[tuple[float, float]] = []
    size = wire_bytes(note(0, text="-" * 1000)) / 1000
    cut = Disconnect("worker/0", "worker/1", at=0.25, duration=10.0)
    play(job(sends(1, text="-" * 1000), hears(seen, 30.0)), Simulator(network=PLAIN, faults=(cut,)))
    assert seen == [(pytest.approx(size + 0.5 + 10.0), 0.0)]


def test_a_cut_of_an_instant_network_is_refused() -> None:
    with pytest.raises(CompositionError, match=r"Instant\(\) has no links that could be cut"):
        Simulator(network=INSTANT, faults=(Disconnect("worker/0", "worker/1", 0.0, 1.0),))


def test_messages_are_dropped_with_the_seeded_probability_and_still_counted() -> None:
    def heard(seed: int, drop: Drop) -> list[float]:
        seen: list[tuple[float, float]] = []
        ending, events = play(job(sends(200, 0.01), hears(seen, 5.0)), Simulator(network=PLAIN, faults=(drop,), seed=seed))
        assert ending.messages_sent == 200
        assert sum(isinstance(event, Faulted) for event in events) == 200 - len(seen)
        return [number for _, number in seen]

    assert heard(1, Drop(0.25)) == heard(1, Drop(0.25)) != heard(2, Drop(0.25))
    assert 120 < len(heard(1, Drop(0.25))) < 180
    assert heard(1, Drop(1.0, between=("worker/1", "worker/0"), at=0.5, duration=0.5)) == [*range(50), *range(100, 200)]
    assert len(heard(1, Drop(1.0, between=("host/1", "worker/1")))) == 200


@pytest.mark.parametrize(
    "fault", [Disconnect("site/Tokio", "site/Ireland", 1.0, 1.0), Drop(0.5, between=("host/2", "worker/0")), Crash("host/0", 1.0)]
)
def test_a_fault_at_a_place_that_does_not_exist_is_refused(fault: Disconnect | Drop | Crash) -> None:
    with pytest.raises(UnknownNameError, match=r"No .* is called '(site/Tokio|host/2|host/0)'"):
        play(job(silent, silent), Simulator(network="wan-3", faults=(fault,)))


def test_a_stall_without_end_is_refused() -> None:
    with pytest.raises(CompositionError, match=r"would never end\. Give finite seconds, or use a Crash"):
        Stall("worker/0", at=1.0, duration=float("inf"))


def test_who_waits_for_a_lost_message_waits_forever_and_is_named() -> None:
    def waits(context: WorkerContext) -> None:
        async def wait() -> None:
            await context.port.receive("x", "worker/0")

        context.perform(wait())

    with pytest.raises(DeadlockError, match="worker/1 waits for 'x' from worker/0, which has ended"):
        play(job(sends(1), waits), Simulator(network=PLAIN, faults=(Drop(1.0),)))
