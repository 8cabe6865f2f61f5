"""Datagrams between two real ends: what comes, and what is dropped."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest
import torch

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.processes.transport.addresses import Address
from polyrhythm.core.processes.transport.datagrams import DatagramPeer, Datagrams
from polyrhythm.core.processes.transport.loop import EventLoop
from polyrhythm.core.processes.transport.wire import Limits
from polyrhythm.errors import WireError

HERE = Address("host", "path")


class Pair:
    """Two ends that reach each other's control messages directly, unless these are `mute`."""

    def __init__(self) -> None:
        self.loop = EventLoop()
        self.come: list[tuple[str, Message]] = []
        self.mute = False
        self.ends = {name: Datagrams(self.loop, self._peer(name, other), Limits()) for name, other in (("a", "b"), ("b", "a"))}

    def _peer(self, name: str, other: str) -> DatagramPeer:
        def control(to: str, message: Message) -> None:
            if not self.mute:
                self.loop.call(lambda: self.ends[to].control(name, message))

        return DatagramPeer(HERE, lambda _: HERE, control, lambda sender, message: self.come.append((sender, message)))

    def run(self, until: Callable[[], bool]) -> None:
        """Serve until that holds, or for a second."""
        deadline = self.loop.after(1.0, self.loop.stop)

        def look() -> None:
            if until():
                self.loop.stop()
            else:
                self.loop.after(0.001, look)

        look()
        self.loop.run()
        deadline.cancel()

    def port(self, name: str) -> int:
        return int(self.ends[name]._open().getsockname()[1])

    def close(self) -> None:
        for end in self.ends.values():
            end.close()
        self.loop.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


def numbered(count: int) -> list[Message]:
    return [Message("x", (float(k),), "text", (torch.full((3, 2), k),)) for k in range(count)]


def test_they_come_with_their_sender_also_those_sent_before_the_first_response(pair: Pair) -> None:
    for message in numbered(5):
        pair.ends["a"].send("b", message)
    pair.run(lambda: len(pair.come) == 5)
    assert [(sender, message.numbers, message.text) for sender, message in pair.come] == [("a", (float(k),), "text") for k in range(5)]
    assert all(torch.equal(message.tensors[0], torch.full((3, 2), k)) for k, (_, message) in enumerate(pair.come))
    pair.ends["b"].send("a", Message("y"))
    pair.run(lambda: len(pair.come) == 6)
    assert pair.come[-1][0] == "b"


def test_of_those_that_wait_for_a_response_the_oldest_are_dropped(pair: Pair) -> None:
    pair.mute = True
    for message in numbered(100):
        pair.ends["a"].send("b", message)
    pair.mute = False
    pair.loop.call(lambda: pair.ends["b"].control("a", Message("datagrams?")))
    pair.run(lambda: len(pair.come) == 64)
    assert [message.numbers[0] for _, message in pair.come] == list(range(36, 100))


def recorded(pair: Pair, count: int) -> list[bytes]:
    """What goes over the line for so many; none of it has come."""
    pair.ends["a"].send("b", Message("x"))
    pair.run(lambda: len(pair.come) == 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.bind(("127.0.0.1", 0))
        way = pair.ends["a"]._outgoing["b"]
        way.target = line.getsockname()
        found = []
        for message in numbered(count):
            pair.ends["a"].send("b", message)
            found.append(line.recv(1 << 16))
        return found


def inject(pair: Pair, *datagrams: bytes) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for each in datagrams:
            stranger.sendto(each, ("127.0.0.1", pair.port("b")))
    before = pair.ends["b"].received + pair.ends["b"].rejected
    pair.run(lambda: pair.ends["b"].received + pair.ends["b"].rejected == before + len(datagrams))


def test_what_was_changed_is_from_a_stranger_or_comes_again_is_dropped_and_counted(pair: Pair) -> None:
    one, *_ = recorded(pair, 1)
    changed = [bytes([*one[:k], one[k] ^ 1, *one[k + 1 :]]) for k in (0, 5, 20, len(one) - 1)]
    inject(pair, b"", b"short", one[:20], one + b".", bytes(len(one)), *changed)
    assert (pair.ends["b"].received, pair.ends["b"].rejected) == (1, 9)
    inject(pair, one, one)
    assert (pair.ends["b"].received, pair.ends["b"].rejected) == (2, 10)


def test_those_that_were_overtaken_come_unless_far_behind(pair: Pair) -> None:
    sent = recorded(pair, 4200)
    inject(pair, sent[4150], sent[4149], sent[100], sent[40], sent[4149], sent[-1])
    assert [message.numbers[0] for _, message in pair.come[1:]] == [4150, 4149, 100, 4199]
    assert pair.ends["b"].rejected == 2


@pytest.mark.parametrize(
    "response",
    [
        Message("datagrams", (70000.0, 0.0), "00" * 32),
        Message("datagrams", (1.0,), "00" * 32),
        Message("datagrams", (1.0, float("inf")), "00" * 32),
        Message("datagrams", (1.0, 0.0), "no key"),
        Message("datagrams", (1.0, 0.0), "00"),
    ],
)
def test_malformed_responses_are_errors_of_the_peer(pair: Pair, response: Message) -> None:
    pair.mute = True
    pair.ends["a"].send("b", Message("x"))
    with pytest.raises(WireError, match="malformed"):
        pair.ends["a"].control("b", response)


def test_a_response_without_a_request_is_an_error_of_the_peer(pair: Pair) -> None:
    with pytest.raises(WireError, match="not asked for"):
        pair.ends["a"].control("b", Message("datagrams", (1.0, 0.0), "00" * 32))
