"""Albums on their way to worker 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from polyrhythm.core.kernel.message import Delivery, Message
from polyrhythm.core.protocols.snapshots import Snapshots, moment
from polyrhythm.core.strategy.snapshots import TOPIC as SNAPSHOTS
from polyrhythm.core.strategy.snapshots import collect, show


class Wire:
    """A port of which everything that is sent comes back, as from worker 1."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def send(self, to: str, message: Message) -> None:
        """Keep it."""
        self.messages.append(message)

    async def receive(self, topic: str) -> Delivery:
        """The next."""
        return Delivery("worker/1" if self.messages[0].numbers else "worker/0", self.messages.pop(0))


def ended(coroutine: Any) -> Any:
    """What it returns, without ever waiting."""
    with pytest.raises(StopIteration) as stop:
        coroutine.send(None)
    return stop.value.value


def shown(moments: Sequence[int], budget: int = 1000) -> tuple[Snapshots, Wire]:
    """An snapshots of two numbers that changed after each of `moments`, and the messages that show it."""
    snapshots, wire = Snapshots(budget), Wire()
    snapshots.wanted = True
    for count, index in enumerate(moments):
        snapshots.look(moment(index), torch.full((2,), float(count)))
    ended(show(wire, "worker/0", "buffers", snapshots))  # type: ignore[arg-type]
    return snapshots, wire


@pytest.mark.parametrize("budget", [1000, 16, 4], ids=["all", "some", "none"])
def test_an_album_arrives_as_it_was(budget: int) -> None:
    snapshots, wire = shown(range(0, 20, 3), budget)
    arrived = ended(collect(wire, {("worker/1", "buffers")}))["worker/1", "buffers"]  # type: ignore[arg-type]
    assert (arrived.stride, arrived.seen, arrived.too_large) == (snapshots.stride, snapshots.seen, snapshots.too_large)
    assert {first: kept.tolist() for first, kept in arrived.kept.items()} == {
        first: kept.tolist() for first, kept in snapshots.kept.items()
    }
    assert snapshots.too_large == (budget == 4)


@pytest.mark.parametrize("arrived", [0, 1, 3], ids=["nothing", "one picture", "all pictures"])
def test_of_a_sender_that_was_lost_before_the_end_of_its_album_there_is_none(arrived: int) -> None:
    _, wire = shown([0, 3, 6])
    assert len(wire.messages) == 4
    wire.messages[arrived:] = [Message(SNAPSHOTS, text="worker/1")]
    assert ended(collect(wire, {("worker/1", "buffers")})) == {}  # type: ignore[arg-type]


def test_an_album_that_came_whole_outlives_its_sender() -> None:
    _, wire = shown([0, 3])
    wire.messages.append(Message(SNAPSHOTS, text="worker/1"))
    wire.messages.append(Message(SNAPSHOTS, text="worker/2"))
    assert ended(collect(wire, {("worker/1", "buffers"), ("worker/2", "buffers")})).keys() == {("worker/1", "buffers")}  # type: ignore[arg-type]
