"""Bytes within a host, as they are: only the kernel and this user's own processes can touch them."""

from __future__ import annotations

import array
import os
import socket
from collections import deque

from polyrhythm.core.processes.transport.byte_stream import Bring, BytePiece, take
from polyrhythm.errors import WireError

_BUFFERS_AT_ONCE = 64
_MOST_DESCRIPTORS = 4
"""With one read. A frame brings one, and one read ends behind the second at the latest; the kernel discards what exceeds this."""


class Plain:
    """A local socket, over which descriptors can go too (`byte_stream.ByteStream`)."""

    local = True
    unsent = False
    held = False

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.more = False

    def send(self, pieces: deque[BytePiece]) -> int:
        """Send as much as the system takes at once."""
        first = pieces[0]
        batch: list[memoryview] = []
        for piece in pieces:
            # the peer takes descriptors in the order of the frames, so each must start a new call
            if len(batch) == _BUFFERS_AT_ONCE or (piece.descriptor >= 0 and piece is not first):
                break
            batch.append(piece.data)
        if first.descriptor < 0:
            count = self.socket.sendmsg(batch)
        else:
            count = self.socket.sendmsg(batch, [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [first.descriptor]))])
            os.close(first.descriptor)
            first.descriptor = -1
        take(pieces, count)
        return count

    def receive(self, into: memoryview, bring: Bring) -> int:
        count, ancillary, flags, _ = self.socket.recvmsg_into([into], socket.CMSG_SPACE(_MOST_DESCRIPTORS * 4), socket.MSG_CMSG_CLOEXEC)
        self.more = count == len(into)
        bring(_descriptors(ancillary))
        if flags & socket.MSG_CTRUNC:
            raise WireError("A peer sent more descriptors at once than frames can bring.")
        return count


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    found = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    return list(found)
