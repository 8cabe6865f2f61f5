"""The places where the processes of a run meet: each kind says who keeps the store, and how the others find it.

A `RankEnvironment` has the place of a run; `Rendezvous` calls its `meet`.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from polyrhythm.core.kernel.names import FIRST, worker
from polyrhythm.core.kernel.stopping import notify
from polyrhythm.core.processes.rendezvous.hosts import Names, is_address, is_everywhere, is_loopback, is_own, towards
from polyrhythm.core.processes.rendezvous.secret import SECRET, given_secret
from polyrhythm.core.processes.store.attempt import StoreTarget
from polyrhythm.core.processes.store.dialogue import PUBLIC
from polyrhythm.core.processes.store.store_client import StoreClient
from polyrhythm.core.processes.store.store_server import StoreServer
from polyrhythm.errors import CompositionError, RunError

BIND, HOST_ADDRESS = "POLYRHYTHM_BIND", "POLYRHYTHM_HOST_ADDR"
DEFAULT_PORT = 29400
_LINGER_SECONDS = 5.0
_PAUSE_SECONDS = 0.1
_PORT_SECONDS = 5.0
"""The store of an earlier run, or of a process that is just ending, may still hold the port."""


@dataclass(frozen=True, slots=True)
class Attendee:
    """A participant in a rendezvous: its rank among `workers`, how long it waits, and the address it listens at, if one was chosen."""

    rank: int
    workers: int
    seconds: float = 300.0
    bind: str = ""

    def addresses(self, found: Callable[[], str]) -> tuple[str, str]:
        """The address to listen at, and the one at which the others reach this host: what the user has chosen, else what is `found`.

        Raises CompositionError for something else than an address.
        """
        outside = os.environ.get(HOST_ADDRESS, "")
        chosen = self.bind or os.environ.get(BIND, "")
        if chosen and not is_address(chosen):
            raise CompositionError(f"Nothing can listen at {chosen!r}: give bind, or set {BIND} to, an IP address of this host.")
        listening = chosen or (outside if outside and is_own(outside) else found())
        return listening, outside or (found() if is_everywhere(listening) else listening)


@dataclass(slots=True)
class Meeting:
    """A worker's part in a rendezvous: its connection with the store, the store itself if it keeps it, and this host's addresses.

    `bind` is the one to listen at, `ip` the one at which others reach it.
    """

    client: StoreClient
    server: StoreServer | None
    bind: str
    ip: str

    @property
    def rejected(self) -> int:
        """The number of callers that did not have the secret, as far as this worker knows."""
        return 0 if self.server is None else self.server.tally.rejected

    def stop_listening(self) -> None:
        """Receive no more callers, if this process keeps the store: all have come."""
        if self.server is not None:
            self.server.stop_listening()

    def close(self, error: BaseException | None = None) -> None:
        """Leave; `error` has ended this worker, if given. The one who keeps the store waits some seconds for the others to leave."""
        if error is None:
            self.client.close()
        else:
            self.client.fail(error)
        if self.server is not None:
            self.server.close(_LINGER_SECONDS)


class MeetingPlace(Protocol):
    """A place that all processes of a run know."""

    def meet(self, who: Attendee) -> Meeting:
        """Come there, waiting for the store if need be. Raises RunError if that is in vain."""


@dataclass(frozen=True, slots=True)
class RankZero:
    """Rank 0 keeps the store, for this one rendezvous, at `port` (0: any free one) of its address `host`."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    names: Names = field(default=Names())

    def meet(self, who: Attendee) -> Meeting:
        """Keep the store or find it; prints a warning where others on the network could come too."""
        if who.rank:
            return join_store(who, self.host, self.port, given_secret() or PUBLIC, self.names)
        return self.opened(who).meet(who)

    def opened(self, who: Attendee) -> OpenStore:
        """Rank 0 keeps the store from now on, so that others can be told its port; prints a warning where strangers could come too."""
        key, addresses = given_secret() or PUBLIC, who.addresses(self._own)
        server = open_store(addresses[0], self.port, who.workers, key)
        if key == PUBLIC:
            warn_unprotected(server.address, who.workers)
        return OpenStore(server, key, addresses)

    def _own(self) -> str:
        found = self.names.addresses(self.host)
        chosen = next(filter(is_loopback, found), "") or next(filter(is_own, found), "") or next(filter(None, map(towards, found)), "")
        if not chosen:
            raise RunError(f"{self.host!r} cannot be reached from here: set MASTER_ADDR to an address that all hosts can reach.")
        return chosen


@dataclass(frozen=True, slots=True)
class OpenStore:
    """Rank 0 keeps `server`, which listens already; `addresses` are the one to listen at, and the one at which others reach it."""

    server: StoreServer
    key: bytes = field(repr=False)
    addresses: tuple[str, str]

    @property
    def port(self) -> int:
        """The port at which the others find it."""
        return self.server.address[1]

    def meet(self, who: Attendee) -> Meeting:
        return keep_store(who, self.server, self.key, self.addresses)


@dataclass(frozen=True, slots=True)
class KeptStore:
    """A launcher keeps a `StoreServer` for the run at `host` and `port`, and gave its processes the `secret` of it, if it has one."""

    host: str
    port: int
    secret: bytes = field(default=b"", repr=False)
    names: Names = field(default=Names())

    def meet(self, who: Attendee) -> Meeting:
        return join_store(who, self.host, self.port, self.secret or given_secret() or PUBLIC, self.names)


def open_store(ip: str, port: int, workers: int, key: bytes) -> StoreServer:
    """A store for one rendezvous. Raises RunError where nothing can listen."""
    deadline = time.monotonic() + _PORT_SECONDS
    while True:
        try:
            return StoreServer(ip, workers, key, port, rounds=1)
        except OSError as problem:
            if problem.errno == errno.EADDRNOTAVAIL:
                raise RunError(
                    f"{ip!r} is no address of this host, so nothing can listen there: give bind, or set {BIND} to, one that is."
                ) from None
            if problem.errno != errno.EADDRINUSE:
                raise RunError(f"Nothing can listen at {ip}:{port} ({problem.strerror}): set MASTER_PORT to another port.") from None
            if time.monotonic() > deadline:
                raise RunError(
                    f"Port {port} of {ip} is used by something else, perhaps torch.distributed or another run: set MASTER_PORT to a "
                    "free port for all processes, or call torch.distributed.init_process_group before pr.join, which then meets there."
                ) from None
        time.sleep(_PAUSE_SECONDS)


def keep_store(who: Attendee, server: StoreServer, key: bytes, addresses: tuple[str, str]) -> Meeting:
    """The meeting of rank 0, which keeps `server` for all, with the addresses to listen at and to be reached at."""
    ip, port = server.address
    reached = addresses[1] if is_everywhere(ip) and is_own(addresses[1]) else ip
    try:
        client = StoreClient(FIRST, lambda: StoreTarget(reached, port, key), who.seconds, called(ip, port))
    except BaseException:
        server.close()
        raise
    return Meeting(client, server, *addresses)


def join_store(who: Attendee, host: str, port: int, key: bytes, names: Names) -> Meeting:
    """The meeting of one who finds the store at a known address."""
    ips = names.addresses(host)
    turns = 0

    def find() -> StoreTarget:
        nonlocal turns
        turns += 1
        return StoreTarget(ips[(turns - 1) % len(ips)], port, key)

    client = StoreClient(worker(who.rank), find, who.seconds, called(host, port))
    return Meeting(client, None, *who.addresses(lambda: towards(client.target.ip)))


def called(host: str, port: int) -> str:
    """The name of the store there in sentences."""
    return f"the store of the rendezvous at {host}:{port}"


def warn_unprotected(address: tuple[str, int], workers: int) -> None:
    """Print what strangers could do, where there are any."""
    ip, port = address
    if workers == 1 or is_loopback(ip):
        return
    notify(
        f"the rendezvous at {ip}:{port} is not protected: whoever can connect to that port can take part in this run, and read or change "
        f"its model. Start all processes with the same {SECRET}, a random text such as `openssl rand -hex 16` prints."
    )
