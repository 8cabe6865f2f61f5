"""The template process from which those of ranks are forked, as the process that has started it uses it; one is kept from run to run."""

from __future__ import annotations

import atexit
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection

from polyrhythm.core.processes.spawn import server_process
from polyrhythm.errors import RunError
from polyrhythm.torch_programs.processes.template import FORK, REPLY, WAIT

_SLOW = ("torch.distributed.tensor", "torch.distributed.fsdp", "torch.distributed.pipelining", "torch.nn.parallel")
"""Modules that take seconds to be imported: those that this process has, ranks are likely to need."""


class Forks:
    """A template process."""

    def __init__(self) -> None:
        self._socket, theirs = _pair()
        self._status: dict[int, int] = {}
        preload = [name for name in _SLOW if name in sys.modules]
        self._process = server_process.started("polyrhythm.torch_programs.processes.template", theirs, preload)

    @property
    def sound(self) -> bool:
        """True if it lives."""
        return self._process.poll() is None

    def fork(self) -> tuple[int, Connection]:
        """A new process: its number, and the link to it. It has the standard output and error of this one."""
        ours, theirs = _pair()
        with theirs:
            return self._request(FORK, [theirs.fileno(), 1, 2]), Connection(ours.detach())

    def kill(self, number: int) -> None:
        """Kill it, with all that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(number, signal.SIGKILL)

    def wait(self, number: int) -> int:
        """Its exit code, or the negative number of the signal that has killed it, when it has ended."""
        if number not in self._status:
            self._status[number] = self._request(WAIT + REPLY.pack(number), [])
        return self._status[number]

    def end(self) -> None:
        """End it, and all ranks."""
        self._socket.close()
        server_process.end(self._process)

    def disown(self) -> None:
        """Leave it to the parent, in a fork of this process: without waiting, and without a warning."""
        self._socket.close()
        self._process.returncode = 0

    def _request(self, content: bytes, descriptors: list[int]) -> int:
        try:
            socket.send_fds(self._socket, [content], descriptors)
            reply = self._socket.recv(REPLY.size)
        except OSError:
            reply = b""
        if not reply:
            raise RunError("The process from which those of ranks are forked has ended.")
        return int(REPLY.unpack(reply)[0])


def _pair() -> tuple[socket.socket, socket.socket]:
    """Two ends that wait as long as it takes, whatever the user has set for all sockets."""
    pair = socket.socketpair()
    for each in pair:
        each.setblocking(True)
    return pair


_idle: list[Forks] = []


@contextmanager
def borrowed() -> Iterator[Forks]:
    """A template for one run: the kept one, or a new one if that is in use."""
    kept = _idle.pop() if _idle else Forks()
    forks = kept if kept.sound else Forks()
    try:
        yield forks
    finally:
        if forks.sound and not _idle:
            _idle.append(forks)
        else:
            forks.end()


@atexit.register
def _end_all() -> None:
    while _idle:
        _idle.pop().end()


def _forget() -> None:
    for forks in _idle:
        forks.disown()
    _idle.clear()


if hasattr(os, "register_at_fork"):  # Linux
    os.register_at_fork(after_in_child=_forget)
