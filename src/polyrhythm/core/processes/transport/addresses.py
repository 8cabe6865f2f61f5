"""The address of an actor: an abstract local socket for its own host, a TCP port for others.

A process listens before it makes its `Node`; a `Connector` opens the sockets to the addresses of others.
"""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path

import msgspec

_BACKLOG = 4096


class Address(msgspec.Struct, frozen=True):
    """`host` identifies a host (more exactly: a network stack); `path` is an abstract local socket there."""

    host: str
    path: str
    ip: str = ""
    port: int = 0


@dataclass(slots=True)
class Listeners:
    """The sockets on which a process waits for its peers, and the address that leads to them."""

    sockets: list[socket.socket]
    address: Address


def this_host() -> str:
    """A name for this host's network stack: two processes with the same can reach each other by abstract sockets."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot}/{os.stat('/proc/self/ns/net').st_ino}"


def listen_locally() -> Listeners:
    """Wait on an abstract local socket, of which nothing stays in the file system."""
    name = f"polyrhythm-{os.getpid()}-{secrets.token_hex(12)}"
    local = socket.socket(socket.AF_UNIX)
    local.bind("\0" + name)
    local.listen(_BACKLOG)
    return Listeners([local], Address(this_host(), name))


def listen_everywhere(ip: str, host: str = "") -> Listeners:
    """Wait on an abstract local socket and on a free TCP port of the interface that has `ip`."""
    listeners, remote = listen_locally(), listen_on(ip)
    listeners.sockets.append(remote)
    found = listeners.address
    listeners.address = Address(host or found.host, found.path, ip, remote.getsockname()[1])
    return listeners


def listen_on(ip: str, port: int = 0) -> socket.socket:
    """Wait on a TCP port, a free one if it is 0, of the interface that has `ip`."""
    return socket.create_server((ip, port), family=socket.AF_INET6 if ":" in ip else socket.AF_INET, backlog=_BACKLOG)


def open_socket(address: Address, host: str) -> tuple[socket.socket, str | tuple[str, int]]:
    """A non-blocking socket of the right kind for `address` as seen from `host`, and what to connect it to."""
    if address.host == host:
        connection, target = socket.socket(socket.AF_UNIX), "\0" + address.path
    else:
        connection = socket.socket(socket.AF_INET6 if ":" in address.ip else socket.AF_INET)
    connection.setblocking(False)
    return connection, (target if address.host == host else (address.ip, address.port))


def tune(connection: socket.socket, patience: float) -> None:
    """Have a TCP connection send at once, keep little unsent in the system, and notice a dead line within `patience` seconds."""
    if connection.family == socket.AF_UNIX:
        return
    probe = max(1, int(patience / 4))
    for option, value in (
        (socket.TCP_NODELAY, 1),
        (socket.TCP_USER_TIMEOUT, int(patience * 1000)),
        (socket.TCP_KEEPIDLE, probe),
        (socket.TCP_KEEPINTVL, probe),
        (socket.TCP_KEEPCNT, 3),
        # what is sent and what only lies in the system's buffer would else look the same to an actor that flushes
        (socket.TCP_NOTSENT_LOWAT, 128 * 1024),
    ):
        connection.setsockopt(socket.IPPROTO_TCP, option, value)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
