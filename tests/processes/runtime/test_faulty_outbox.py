"""What leaves an actor whose connections are cut, or lose messages."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from polyrhythm.core.kernel.message import ASIDE, Message
from polyrhythm.core.processes.runtime.faulty_outbox import FaultyOutbox
from polyrhythm.hardware.faults import DatagramFaults, Drop, Fault
from polyrhythm.hardware.faults.losses import Losses


class World:
    """Connections and a clock that keep what they are given."""

    def __init__(self, *faults: Fault) -> None:
        self.left: list[tuple[str, str]] = []
        self.counted = 0
        self.now = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.lost: list[str] = []
        losses = Losses(faults, 3, lambda: self.now, lambda sender, receiver, topic: self.lost.append(topic))
        them: Any = self
        self.outbox = FaultyOutbox("worker/0", them, them, losses)

    def send(self, to: str, message: Message) -> None:
        self.left.append((to, message.topic))

    send_datagram = send

    def count(self, nbytes: int, messages: int) -> None:
        self.counted += messages

    def when_drained(self, call: Callable[[], None], to: str = "") -> None:
        call()

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self.timers.append((self.now + seconds, call))

    def pass_time(self, until: float) -> None:
        self.now = until
        due, self.timers = [call for at, call in self.timers if at <= until], [timer for timer in self.timers if timer[0] > until]
        for call in due:
            call()


def test_what_is_sent_over_a_cut_connection_leaves_in_its_order_when_the_last_cut_ends() -> None:
    world, drained = World(), list[str]()
    world.outbox.cut("worker/1", 1.0)
    world.outbox.cut("worker/1", 2.0)
    for topic in ("a", "b", ASIDE + "of the runtime"):
        world.outbox.send("worker/1", Message(topic))
    world.outbox.send("worker/2", Message("c"))
    for to in ("", "worker/1", "worker/2"):
        world.outbox.when_drained(lambda to=to: drained.append(to), to)  # type: ignore[misc]
    assert world.left == [("worker/1", ASIDE + "of the runtime"), ("worker/2", "c")]
    world.pass_time(1.0)
    assert drained == ["worker/2"]
    world.pass_time(2.0)
    assert world.left[2:] == [("worker/1", "a"), ("worker/1", "b")]
    assert drained == ["worker/2", "", "worker/1"]


def test_over_a_connection_that_stays_cut_nothing_leaves_and_nobody_waits_for_that() -> None:
    world, drained = World(), list[str]()
    world.outbox.cut("worker/1", math.inf)
    world.outbox.send("worker/1", Message("a"))
    world.outbox.when_drained(lambda: drained.append("all"))
    assert (world.left, world.timers, drained) == ([], [], ["all"])


def test_messages_to_oneself_are_not_lost_and_lost_ones_are_counted() -> None:
    world = World(Drop(1.0))
    for to in ("worker/0", "worker/1"):
        world.outbox.send(to, Message("a"))
    assert (world.left, world.counted, world.lost) == ([("worker/0", "a")], 1, ["a"])


@pytest.mark.parametrize(
    ("fault", "times"),
    [
        (DatagramFaults(loss=1.0), []),
        (DatagramFaults(duplicated=1.0, delay=0.5), [0.0, 0.5]),
        (DatagramFaults(late=1.0, delay=0.5), [0.5]),
        (DatagramFaults(loss=1.0, topic="other"), [0.0]),
    ],
)
def test_datagrams_are_lost_late_or_come_again(fault: DatagramFaults, times: list[float]) -> None:
    world, found = World(fault), list[float]()
    world.outbox.send_datagram("worker/1", Message("a"))
    for now in (0.0, 0.5):
        world.pass_time(now)
        found += [now] * (len(world.left) - len(found))
    assert found == times
