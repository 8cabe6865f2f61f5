"""The launcher's handle on a fork server, and the one that is kept from run to run."""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import msgspec

from polyrhythm.core.processes.runtime import failure
from polyrhythm.core.processes.spawn import server_process
from polyrhythm.core.processes.spawn.fork_server import MOST_BYTES, Died, Fork, Kill, Reply, Request
from polyrhythm.errors import RunError

_END_SECONDS = 5.0
_EXIT_SECONDS = 1.0


class ForkClient:
    """A fork server process and the socket to it."""

    def __init__(self) -> None:
        _occupy_standard_streams()
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(Reply)
        self._alive: set[str] = set()
        self._ended = False
        self._process = server_process.started("polyrhythm.core.processes.spawn.fork_server", theirs)

    @property
    def sound(self) -> bool:
        """True if the fork server lives and has no children."""
        return not self._ended and self._process.poll() is None and not self._alive

    def fork(self, request: Fork, control: socket.socket, beats: socket.socket, job_spec: int) -> None:
        """Request a process with `control`, `beats` and `job_spec`, that writes to this one's standard output and error."""
        self._alive.add(request.name)
        self._request(request, [control.fileno(), beats.fileno(), job_spec, 1, 2])

    def kill(self, name: str) -> None:
        """Kill the process of `name`, whose death is then announced as any other. Raises RunError if the fork server has failed."""
        self._request(Kill(name), [])

    def next_death(self) -> Died:
        """The next death, which must have been announced. Raises RunError if the fork server or a fork failed."""
        try:
            data = self.socket.recv(MOST_BYTES)
        except ConnectionError:  # it died with a request unread
            data = b""
        if not data:
            self._alive.clear()
            self._ended = True  # its socket shows it sooner than the system
            raise RunError(f"The fork server, which starts the workers, {self._how_it_ended()}.")
        reply = self._decoder.decode(data)
        self._alive.discard(reply.name)
        if isinstance(reply, Died):
            return reply
        raise RunError(f"The process of {reply.name} cannot be started: {reply.why}.")

    def clear(self) -> None:
        """Kill all children, and wait until they are gone."""
        self.socket.settimeout(_END_SECONDS)
        if self._alive:
            self._request(Kill(), [])
        while self._alive:
            self.next_death()
        self.socket.settimeout(None)

    def end(self) -> None:
        """End the fork server, and its children with it."""
        self._ended = True
        self.socket.close()
        server_process.end(self._process)

    def disown(self) -> None:
        """Leave the fork server to the parent, in a fork of this process: without waiting, and without a warning."""
        self.socket.close()
        self._process.returncode = 0

    def _request(self, request: Request, descriptors: list[int]) -> None:
        try:
            socket.send_fds(self.socket, [self._encoder.encode(request)], descriptors)
        except OSError as problem:
            raise RunError(f"The fork server, which starts the workers, {self._how_it_ended()}.") from problem

    def _how_it_ended(self) -> str:
        """The predicate of a sentence on how it ended, or that it does not respond."""
        try:
            status = self._process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            return "does not respond"
        return failure.exit_phrase(status)


_idle: list[ForkClient] = []


@contextmanager
def borrow() -> Iterator[ForkClient]:
    """A fork server for one run: the kept one, or a new one if that is in use. Its children are gone at the end."""
    _occupy_standard_streams()
    client = _take()
    try:
        yield client
    finally:
        try:
            client.clear()
        except (RunError, OSError):
            client.end()
        finally:
            _keep(client)


def warm() -> None:
    """Start a fork server in the background, if there is none yet, so that the first run need not wait for its imports."""
    if not _idle:
        _idle.append(ForkClient())


def end_all() -> None:
    """End the kept fork servers."""
    while _idle:
        _idle.pop().end()


def _take() -> ForkClient:
    while _idle:
        with suppress(IndexError):  # another thread took the last
            client = _idle.pop()
            if client.sound:
                return client
            client.end()
    return ForkClient()


def _keep(client: ForkClient) -> None:
    if client.sound and not _idle:
        _idle.append(client)
    else:
        client.end()


def _occupy_standard_streams() -> None:
    """Open what is closed of the descriptors 0 to 2, or sockets would take their places, and children print into them."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def _forget() -> None:
    """Forget the kept fork servers in a fork of this process: they are its parent's."""
    for client in _idle:
        client.disown()
    _idle.clear()


atexit.register(end_all)
if sys.platform == "linux":  # elsewhere there may be no fork, and there are no fork servers
    os.register_at_fork(after_in_child=_forget)
