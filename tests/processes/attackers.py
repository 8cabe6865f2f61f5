"""Those whom a run must withstand: a relay between two hosts that may change what it carries, and many callers who prove nothing."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from polyrhythm.core.processes.transport.addresses import Address


def untouched(out: bool, data: bytes) -> bytes:
    return data


class Relay:
    """Takes calls at `port` and carries them on to `target`.

    `change` is what becomes of bytes on their way, the first of its arguments being whether they come from the caller; an empty result ends
    the connection. `seen` is all that came, each way, of all connections.
    """

    def __init__(self) -> None:
        self.seen = {True: b"", False: b""}
        self.target = ("", 0)
        self.change: Callable[[bool, bytes], bytes] = untouched
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self._others: dict[socket.socket, tuple[socket.socket, bool]] = {}
        self._over, self._wake = socket.socketpair()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def to(self, address: Address) -> Address:
        """The address that leads to `address` by this relay."""
        self.target = (address.ip, address.port)
        return Address(address.host, address.path, "127.0.0.1", self.port)

    def close(self) -> None:
        self._wake.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            ready, _, _ = select.select([self._over, self._server, *self._others], [], [])
            if self._over in ready:
                break
            for source in ready:
                if source is self._server:
                    near, far = self._server.accept()[0], socket.create_connection(self.target)
                    self._others |= {near: (far, True), far: (near, False)}
                elif source in self._others:
                    self._carry(source)
        for end in (self._over, self._server, *self._others):
            end.close()

    def _carry(self, source: socket.socket) -> None:
        target, out = self._others[source]
        try:
            data = source.recv(1 << 16)
            self.seen[out] += data
            data = self.change(out, data) if data else b""
            target.sendall(data)
        except OSError:
            data = b""
        if not data:
            for end in (source, target):
                del self._others[end]
                end.close()


def negated(out: bool, data: bytes) -> bytes:
    """Single-precision numbers with the other sign, if `data` begins with one; what is no number changes too."""
    changed = bytearray(data)
    changed[3::4] = bytes(byte ^ 0x80 for byte in changed[3::4])
    return bytes(changed)


@contextmanager
def callers(address: Address, count: int, data: bytes = b"") -> Iterator[list[socket.socket]]:
    """So many connections to `address` that have sent `data` and wait."""
    with ExitStack() as stack:
        made = []
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection((address.ip, address.port)))
            connection.settimeout(60)
            made.append(connection)
            try:
                connection.sendall(data)
            except ConnectionError:  # it has been dropped already
                continue
        yield made


def until_closed(connection: socket.socket) -> bytes:
    """What comes over a connection until the other end closes it."""
    connection.settimeout(60)
    come = bytearray()
    try:
        while data := connection.recv(1 << 16):
            come += data
    except ConnectionError:  # it did not read to the end
        pass
    return bytes(come)
