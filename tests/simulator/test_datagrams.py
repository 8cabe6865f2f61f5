"""Datagrams in virtual time: lost, late and doubled ones, and messages that are none of these."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.message import DATAGRAM_BYTES, Message, wire_bytes
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.errors import CompositionError, UnknownNameError
from polyrhythm.hardware.faults import Crash, DatagramFaults, Drop

from .scenes import INSTANT, PLAIN, Program, job, note, play, silent
from .test_fault_injection import hears

EVERY = 0.01
COUNT = 200


def sends(context: WorkerContext) -> None:
    async def send() -> None:
        for number in range(COUNT):
            await context.port.send_datagram("worker/1", note(number))
            await context.port.sleep(EVERY)

    context.perform(send())


def heard(on: Simulator, sender: Program = sends) -> list[tuple[float, float]]:
    seen: list[tuple[float, float]] = []
    ending, _ = play(job(sender, hears(seen, 5.0)), on)
    assert ending.messages_sent == COUNT
    return seen


def under(network: Any = INSTANT, seed: int = 1, **fault: Any) -> list[float]:
    """The numbers that arrive, in order."""
    return [number for _, number in heard(Simulator(network=network, faults=(DatagramFaults(**fault),), seed=seed))]


def test_without_faults_they_arrive_like_messages() -> None:
    def sends_messages(context: WorkerContext) -> None:
        async def send() -> None:
            for number in range(COUNT):
                await context.port.send("worker/1", note(number))
                await context.port.sleep(EVERY)

        context.perform(send())

    for network in (INSTANT, PLAIN):
        assert heard(Simulator(network=network)) == heard(Simulator(network=network), sends_messages)


def test_they_are_lost_with_the_seeded_probability() -> None:
    assert under(loss=0.25) == under(loss=0.25) != under(seed=2, loss=0.25)
    assert 120 < len(under(loss=0.25)) < 180
    assert under(loss=1.0, at=0.5, duration=0.5) == [*range(50), *range(100, COUNT)]
    assert len(under(loss=1.0, topic="y")) == len(under(loss=1.0, between=("worker/1", "worker/1"))) == COUNT
    assert under(loss=1.0, between=("worker/1", "worker/0")) == []


def test_a_network_loses_them_between_hosts() -> None:
    assert 120 < len(heard(Simulator(network=replace(PLAIN, loss=0.25)))) < 180


def test_messages_are_not_affected() -> None:
    def sends_one(context: WorkerContext) -> None:
        async def send() -> None:
            await context.port.send("worker/1", note(7))

        context.perform(send())

    seen: list[tuple[float, float]] = []
    play(job(sends_one, hears(seen, 5.0)), Simulator(network=replace(PLAIN, loss=0.99), faults=(DatagramFaults(loss=1.0),)))
    assert [number for _, number in seen] == [7]


def test_late_ones_are_overtaken_and_copies_come_after_their_originals() -> None:
    late = under(late=0.25, delay=0.025)
    assert sorted(late) == list(range(COUNT))
    assert late != sorted(late)
    doubled = heard(Simulator(network=INSTANT, faults=(DatagramFaults(duplicated=0.25, delay=0.025),)))
    assert COUNT + 20 < len(doubled) < COUNT + 80
    for number in range(COUNT):
        times = [time for time, each in doubled if each == number]
        assert times in ([pytest.approx(number * EVERY)], [pytest.approx(number * EVERY), pytest.approx(number * EVERY + 0.025)])


def test_a_fault_that_drops_messages_drops_them_too() -> None:
    assert len(heard(Simulator(network=PLAIN, faults=(Drop(1.0),)))) == 0


def test_what_a_crashed_actor_had_not_wholly_sent_is_lost() -> None:
    def sends_two(context: WorkerContext) -> None:
        async def send() -> None:
            for number in range(2):
                await context.port.send_datagram("worker/1", Message("x", (number,), tensors=(torch.zeros(250),)))
            await context.port.sleep(5.0)

        context.perform(send())

    seen: list[tuple[float, float]] = []
    play(job(sends_two, hears(seen, 9.0), survives=True), Simulator(network=PLAIN, faults=(Crash("worker/0", 1.5),)))
    assert [number for _, number in seen] == [0]


def test_one_that_does_not_fit_is_refused() -> None:
    port = Port("worker/0", 0, lambda: 0.0)
    largest = Message("x", tensors=(torch.zeros(DATAGRAM_BYTES - wire_bytes(Message("x", tensors=(torch.zeros(0),))), dtype=torch.uint8),))
    assert port.send_datagram("worker/1", largest).message is largest
    with pytest.raises(CompositionError, match=r"'x' of 60001 bytes was to be a datagram, which holds 60000: cut it"):
        port.send_datagram("worker/1", replace(largest, text="."))


@pytest.mark.parametrize("given", [{"loss": 1.5}, {"late": float("nan")}, {"duplicated": -0.1}, {"delay": 0.0}, {"at": -1.0}])
def test_impossible_faults_are_refused(given: dict[str, float]) -> None:
    with pytest.raises(CompositionError, match=r"Give one from 0 to 1|Give seconds above 0|impossible times"):
        DatagramFaults(**given)


def test_faults_between_strangers_are_refused() -> None:
    with pytest.raises(UnknownNameError):
        play(job(silent, silent), Simulator(network=PLAIN, faults=(DatagramFaults(loss=0.5, between=("worker/7", "worker/0")),)))
