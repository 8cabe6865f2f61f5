"""Ports for processes that are given the address of a store before one of them listens there."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved_port() -> Iterator[int]:
    """A TCP port of loopback that the system gives to nobody meanwhile, and that can be listened on all the same.

    It is bound, and nobody listens at it. Linux lets two sockets be bound to a port if both set SO_REUSEADDR and neither listens yet, and
    gives no such port away.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
