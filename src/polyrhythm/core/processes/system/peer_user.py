"""The process at the other end of a local socket, as the kernel saw it when it was connected or began to listen."""

from __future__ import annotations

import os
import socket
import struct

_CREDENTIALS = struct.Struct("3i")


def peer_process(connection: socket.socket) -> tuple[int, int]:
    """The number of the process at the other end of a local socket, and of the user that it belongs to (SO_PEERCRED of unix(7))."""
    process, user, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return process, user


def is_of_this_user(connection: socket.socket) -> bool:
    """True if the process at the other end of a local socket belongs to the user of this one."""
    return peer_process(connection)[1] == os.geteuid()
