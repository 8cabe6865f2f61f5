"""Ports for processes that are told where to meet before one of them listens there."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved_port() -> Iterator[int]:
    """A TCP port of loopback that nobody is given meanwhile who asks the system for a free one, and that can be listened on all the same.

    It is bound, and nobody listens at it. Linux lets two sockets be bound to a port if both say SO_REUSEADDR and neither listens yet, and
    gives no such port away.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
