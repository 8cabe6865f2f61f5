"""The bytes of one connection, through which a frame link sends and receives."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

Bring = Callable[[list[int]], None]


@dataclass(slots=True)
class BytePiece:
    """Bytes that wait to be sent, and a descriptor that goes with the first of them."""

    data: memoryview
    descriptor: int = -1


class ByteStream(Protocol):
    """Bytes over a connected socket, in both directions.

    `local` is whether both ends are on one host, so that descriptors can go along. `unsent` is whether something that was taken has not
    gone to the system yet; `more` whether more is likely to be there to receive; `held` whether some of it has left the socket
    already, so that the system will not report it.
    """

    socket: socket.socket
    local: bool
    more: bool

    @property
    def unsent(self) -> bool: ...

    @property
    def held(self) -> bool: ...

    def send(self, pieces: deque[BytePiece]) -> int:
        """Take some bytes from the front of `pieces` and send what was taken: how many were. Raises BlockingIOError if there is no room."""

    def receive(self, into: memoryview, bring: Bring) -> int:
        """Receive at most as much as fits `into`: the number of bytes, 0 at the end. `bring` is given the descriptors that came along.

        Raises BlockingIOError if nothing has come, WireError on what cannot be.
        """


def take(pieces: deque[BytePiece], count: int) -> None:
    """Remove `count` bytes from the front of `pieces`."""
    while count:
        piece = pieces[0]
        if count < len(piece.data):
            piece.data = piece.data[count:]
            return
        count -= len(piece.data)
        pieces.popleft()
