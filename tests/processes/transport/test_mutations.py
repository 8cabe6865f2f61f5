"""Ten million mutated messages against all that reads what others send: frames, handshakes and sealed records."""

import copy
import os
import random
import resource
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
import torch

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.processes.transport.byte_stream import BytePiece
from polyrhythm.core.processes.transport.decoder import Decoder
from polyrhythm.core.processes.transport.handshake import Credentials, Session, answer, call
from polyrhythm.core.processes.transport.sealed import Sealed
from polyrhythm.core.processes.transport.stripes import Assembly, cut
from polyrhythm.core.processes.transport.wire import CONTROL, Limits, encode, encode_striped
from polyrhythm.errors import TamperedError, WireError

MORE_MEMORY = 100 * 1024  # KiB that all of them together may take
EDGES = (b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff")
FRAMES, HANDSHAKES, RECORDS = 2_000_000, 1_000_000, 1_000_000
"""Of each of four parts, of one, and of one: ten million."""


class Mutations:
    """Mutated copies of some messages, several times faster than drawing each place and kind from a random stream."""

    def __init__(self, seed: int, messages: list[bytes]) -> None:
        self._random = random.Random(seed)
        self._messages = messages

    def __call__(self, count: int) -> Iterator[bytes]:
        made, bits = 0, self._random.getrandbits
        while made < count:
            for message in self._messages:
                drawn = bits(64)
                at = (drawn >> 8) % len(message)
                match drawn & 7:
                    case 0:
                        yield message[:at]
                    case 1:
                        yield message[:at] + EDGES[(drawn >> 40) % 5] + message[at + 1 :]
                    case 2:
                        yield message[:at] + message[at + 1 :]
                    case 3:
                        yield message[:at] + (drawn >> 32).to_bytes(4, "little") + message[at:]
                    case 4:
                        yield message[: at % 24] + bits(64).to_bytes(8, "little") + message[at % 24 + 8 :]
                    case 5:
                        yield message[:at] + message
                    case _:
                        yield message[:at] + bytes((message[at] ^ 1 << (drawn >> 40 & 7),)) + message[at + 1 :]
                made += 1


def whole(message: Message, flags: int = 0) -> bytes:
    return b"".join(map(bytes, encode(message, flags)))


def frames() -> list[bytes]:
    striped = Message("push", (1.0,), "", (torch.arange(9.0), torch.ones(4, dtype=torch.bool)))
    return [
        whole(Message("push")),
        whole(Message("push", (1.0, 2.0), "text", (torch.arange(6.0).reshape(2, 3),))),
        whole(Message("é", (3.0,), "", (torch.ones(4, dtype=torch.bool), torch.zeros((0, 3)), torch.tensor(7)))),
        whole(Message("hello", text="worker/1"), CONTROL),
        encode_striped(striped, 0, Limits()),
        *(b"".join(stripe) for stripe in cut(striped, 0, 16)),
    ]


@pytest.fixture
def bounded() -> Iterator[None]:
    """No descriptor more at the end, and not much more memory in between."""
    before, descriptors = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, len(os.listdir("/proc/self/fd"))
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MORE_MEMORY
    assert len(os.listdir("/proc/self/fd")) == descriptors


def decode(mutations: Mutations, count: int) -> int:
    """How many were refused."""
    refused = 0
    for data in mutations(count):
        decoder = Decoder()
        decoder.board = Assembly()
        try:
            for _ in decoder.feed(data):
                pass
            decoder.finish()
        except WireError:
            refused += 1
    return refused


def drive(steps: Callable[[], object], data: bytes) -> bool:
    """Whether a handshake came to its end over `data`."""
    side = steps()
    turn, at = next(side), 0  # type: ignore[call-overload]
    with suppress(WireError):
        while at + turn.wanted <= len(data):
            taken = data[at : at + turn.wanted]
            at += len(taken)
            try:
                turn = side.send(taken)  # type: ignore[attr-defined]
            except StopIteration:
                return True
    return False


def shake(seed: int, count: int) -> int:
    """How many of mutated calls and responses were accepted."""
    secret = b"s" * 32
    listener = answer(Credentials("worker/1", secret), lambda name: True)
    caller = call(Credentials("worker/0", secret), "worker/1")
    greeting = next(listener).reply
    next(caller)
    caller.send(greeting[:4])
    sent = caller.send(greeting[4:]).reply
    listeners, callers = Mutations(seed, [sent]), Mutations(seed, [greeting + bytes(64)])
    accepted = sum(drive(lambda: answer(Credentials("worker/1", secret), lambda name: True), data) for data in listeners(count // 2))
    return accepted + sum(drive(lambda: call(Credentials("worker/0", secret), "worker/1"), data) for data in callers(count // 2))


class Tape:
    """A socket from which `data` is read, and then nothing."""

    def __init__(self) -> None:
        self.data = b""

    def send(self, data: memoryview) -> int:
        self.data += bytes(data)
        return len(data)

    def recv_into(self, space: memoryview) -> int:
        if not self.data:
            raise BlockingIOError
        count = min(len(space), len(self.data))
        space[:count] = self.data[:count]
        self.data = self.data[count:]
        return count


def open_records(seed: int, count: int) -> int:
    """How many mutated streams of two records were opened to something that was not sent; raises what is no WireError."""
    tape, into, messages = Tape(), memoryview(bytearray(1 << 16)), (b"x" * 30, b"y" * 50)
    sender = Sealed(tape, Session("worker/1", 0, bytes(32), bytes(32)))  # type: ignore[arg-type]
    for message in messages:
        sender.send(deque([BytePiece(memoryview(message))]))
    sealed, tape.data = tape.data, b""
    fresh, forged = Sealed(tape, Session("worker/0", 0, bytes(32), bytes(32))), 0  # type: ignore[arg-type]
    for data in Mutations(seed, [sealed])(count):
        receiver, tape.data, come = copy.copy(fresh), data, b""
        with suppress(BlockingIOError, TamperedError):
            while True:
                come += into[: receiver.receive(into, lambda _: None)]
        forged += come not in (b"", messages[0], messages[0] + messages[1])
    return forged


@pytest.mark.usefixtures("bounded")
def test_mutated_frames_are_decoded_or_refused_and_none_does_harm() -> None:
    assert 0 < decode(Mutations(1, frames()), 20_000) < 20_000


@pytest.mark.usefixtures("bounded")
def test_of_mutated_handshakes_none_is_accepted() -> None:
    assert shake(1, 2_000) == 0


@pytest.mark.usefixtures("bounded")
def test_of_mutated_records_nothing_comes_that_was_not_sent() -> None:
    assert open_records(1, 10_000) == 0


@pytest.mark.long
@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("seed", range(2, 6))
def test_eight_million_mutated_frames_do_no_harm(seed: int) -> None:
    assert FRAMES // 2 < decode(Mutations(seed, frames()), FRAMES) < FRAMES


@pytest.mark.long
@pytest.mark.usefixtures("bounded")
def test_of_a_million_mutated_handshakes_none_is_accepted() -> None:
    assert shake(2, HANDSHAKES) == 0


@pytest.mark.long
@pytest.mark.usefixtures("bounded")
def test_of_a_million_mutated_records_nothing_comes_that_was_not_sent() -> None:
    assert open_records(2, RECORDS) == 0
