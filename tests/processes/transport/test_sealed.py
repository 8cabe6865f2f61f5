"""Two sealed ends, over a pair of sockets or with somebody between them who keeps every record."""

import socket
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from polyrhythm.core.processes.transport.byte_stream import BytePiece
from polyrhythm.core.processes.transport.handshake import Session
from polyrhythm.core.processes.transport.sealed import RECORD, Sealed
from polyrhythm.errors import TamperedError, WireError

ONE, OTHER = bytes(range(32)), bytes(range(32, 64))


class Line:
    """Two ends whose records go through `records`, so that they can be changed."""

    def __init__(self) -> None:
        self._sockets = [socket.socketpair() for _ in range(2)]
        self.sender = Sealed(self._sockets[0][0], Session("worker/1", 0, ONE, OTHER))
        self.receiver = Sealed(self._sockets[1][1], Session("worker/0", 0, OTHER, ONE))
        for pair in self._sockets:
            for end in pair:
                end.setblocking(False)

    def records(self, *messages: bytes) -> list[bytes]:
        """What goes over the line for these, each sealed by itself."""
        return [self._sealed(message) for message in messages]

    def _sealed(self, message: bytes) -> bytes:
        pieces, come = deque([BytePiece(memoryview(message))]), b""
        while pieces or self.sender.unsent:
            self.sender.send(pieces)
            come += self._sockets[0][1].recv(1 << 20)
        return come

    def bring(self, data: bytes, size: int = 1 << 16) -> bytes:
        """What the receiver opens of `data`, reading at most `size` bytes at once."""
        view, come, into = memoryview(data), bytearray(), memoryview(bytearray(size))
        while True:
            with suppress(BlockingIOError):
                view = view[self._sockets[1][0].send(view) :]
            try:
                count = self.receiver.receive(into, lambda _: None)
                come += into[:count]
            except BlockingIOError:
                if not view:
                    return bytes(come)

    def end(self) -> None:
        self._sockets[1][0].close()

    def close(self) -> None:
        for pair in self._sockets:
            for end in pair:
                end.close()


@pytest.fixture
def line() -> Iterator[Line]:
    made = Line()
    yield made
    made.close()


@pytest.mark.parametrize("size", [61, 4096, 1 << 16, 1 << 20])
def test_what_is_sealed_opens_to_the_same_bytes_however_it_is_read(line: Line, size: int) -> None:
    sent = [bytes([place % 256]) * length for place, length in enumerate((1, 100, 5000, RECORD, RECORD + 1, 3 * RECORD + 17, 20_000, 2))]
    sealed = b"".join(line.records(*sent))
    assert line.bring(sealed, size) == b"".join(sent)


def test_small_pieces_share_a_record_and_nothing_of_them_can_be_seen(line: Line) -> None:
    pieces = deque(BytePiece(memoryview(b"secret words")) for _ in range(100))
    assert line.sender.send(pieces) == 1200
    sealed = line._sockets[0][1].recv(1 << 20)
    assert len(sealed) == 1200 + 20
    assert b"secret" not in sealed
    assert line.bring(sealed) == b"secret words" * 100


CHANGES: dict[str, Callable[[list[bytes]], bytes]] = {
    "a bit of the content": lambda records: records[0][:9] + bytes([records[0][9] ^ 1]) + records[0][10:],
    "a bit of the tag": lambda records: records[0][:-1] + bytes([records[0][-1] ^ 0x80]),
    "a length, to less": lambda records: bytes([records[0][0] - 1]) + b"".join(records)[1:],
    "a length, to more": lambda records: bytes([records[0][0] + 1]) + b"".join(records)[1:],
    "a length, to far too much": lambda records: b"\xff\xff\xff\x7f" + b"".join(records)[4:],
    "a length, to nothing": lambda records: b"\x10\x00\x00\x00" + b"".join(records)[4:],
    "sent again": lambda records: records[0] + records[0],
    "reordered": lambda records: records[1] + records[0],
    "left out": lambda records: records[0] + records[2],
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_was_changed_on_the_way_is_an_error_that_names_the_peer(line: Line, change: Callable[[list[bytes]], bytes]) -> None:
    data = change(line.records(b"x" * 100, b"y" * 100, b"z" * 100))
    with pytest.raises(TamperedError, match="A record from worker/0 was changed on the way"):
        line.bring(data)


def test_what_is_sent_back_to_its_sender_does_not_open(line: Line) -> None:
    reflected = Line()
    reflected.receiver = Sealed(reflected._sockets[1][1], Session("worker/1", 0, ONE, OTHER))
    with pytest.raises(TamperedError):
        reflected.bring(line.records(b"x" * 100)[0])
    reflected.close()


def test_a_stream_that_is_cut_within_a_record_is_no_orderly_end(line: Line) -> None:
    assert line.bring(line.records(b"x" * 100)[0][:-1]) == b""
    line.end()
    with pytest.raises(WireError, match="middle of a record"):
        line.receiver.receive(memoryview(bytearray(100)), lambda _: None)


def test_a_receiver_that_reads_little_learns_that_there_is_more(line: Line) -> None:
    line._sockets[1][0].send(b"".join(line.records(b"x" * 100, b"y" * 100)))
    into = memoryview(bytearray(60))
    seen = []
    for _ in range(4):
        count = line.receiver.receive(into, lambda _: None)
        seen.append((count, line.receiver.more, line.receiver.held))
    assert seen == [(60, True, True), (40, True, True), (60, True, True), (40, False, False)]
