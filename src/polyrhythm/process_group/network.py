"""The network of the processes of a job that are on several hosts: one node in each, with authenticated connections to all others.

The first group of a process that has members on other hosts makes it, through the store of that group; later groups of the same processes
use it too. With POLYRHYTHM_SECRET in the environment of all, nobody without it can take part.
"""

from __future__ import annotations

import atexit
import hmac
import json
import logging
import os
import secrets
import threading
from collections.abc import Callable, Sequence

import msgspec
from torch.distributed import Store  # type: ignore[attr-defined]

from polyrhythm.core.kernel.events import AnyEvent
from polyrhythm.core.kernel.names import rank_of, worker
from polyrhythm.core.processes.rendezvous.entrance import HOST
from polyrhythm.core.processes.rendezvous.hosts import Names, is_loopback, is_own, towards
from polyrhythm.core.processes.rendezvous.places import Attendee
from polyrhythm.core.processes.rendezvous.secret import SECRET, given_secret
from polyrhythm.core.processes.runtime.node import Node
from polyrhythm.core.processes.runtime.role import Role
from polyrhythm.core.processes.store.dialogue import PUBLIC
from polyrhythm.core.processes.transport.addresses import Address, listen_everywhere
from polyrhythm.core.processes.transport.frame_link import Wiring
from polyrhythm.errors import RunError

_ENDING_SECONDS = 5.0
_LOOK_SECONDS = 0.01
_TOGETHER_SECONDS = 0.2
"""A process that ends in order says so before its connections end."""
_log = logging.getLogger("polyrhythm.process_group")
_known: dict[str, HostNetwork] = {}


class HostNetwork:
    """The node of this process, `rank` of the job, in the network `name`, and the groups that use it."""

    def __init__(self, name: str, rank: int, secret: bytes, ip: str) -> None:
        self.name = name
        self._listeners = listen_everywhere(ip, os.environ.get(HOST, ""))
        self.node = Node(Role(worker(rank), secret), Wiring(), self._listeners, _unrecorded)
        self.node.on_connection_lost = self._suspect
        self._on_loss: dict[object, Callable[[int], None]] = {}
        self.lost: dict[int, None] = {}

    @property
    def address(self) -> Address:
        """The address of this process."""
        return self._listeners.address

    def connect(self, table: dict[str, Address], seconds: float) -> None:
        """Open connections with all of `table`. Raises RunError where that takes longer than `seconds`."""
        node, others = self.node, [name for name in table if name != self.node.port.name]
        connected = threading.Event()

        def look() -> None:
            if node.peers.connected(others):
                connected.set()
            else:
                node.loop.after(_LOOK_SECONDS, look)

        def begin() -> None:
            node.begin_run(table, node.origin)
            node.peers.connect(others)
            look()

        node.start()
        node.loop.call(begin)
        if not connected.wait(seconds):
            raise RunError(
                f"{node.port.name} is not connected with all other processes after {seconds:g} s: each must be able to reach the others at "
                f"the addresses {', '.join(sorted({address.ip for address in table.values()}))}, and be given the same {SECRET}."
            )

    def use(self, user: object, on_loss: Callable[[int], None]) -> None:
        """A group uses it: `on_loss` is called with the rank of each process that is lost, in the loop's thread."""
        self._on_loss[user] = on_loss

    def leave(self, user: object) -> None:
        """A group is done with it; the last one ends it."""
        self._on_loss.pop(user, None)
        if not self._on_loss:
            self.end()

    def end(self) -> None:
        """Let the others receive what was sent, and close all connections."""
        if _known.pop(self.name, None) is None:
            return
        ended = threading.Event()
        self.node.loop.call(lambda: self.node.finish(ended.set))
        ended.wait(_ENDING_SECONDS)
        self.node.stop()

    def _suspect(self, name: str, why: Exception | None) -> None:
        self.node.loop.after(_TOGETHER_SECONDS, lambda: self._lose(name))

    def _lose(self, name: str) -> None:
        if not self.node.has_ended(name):
            self.lost[rank_of(name)] = None
            self.node.lose(name)
            for call in list(self._on_loss.values()):
                call(rank_of(name))


def network_of(store: Store, rank: int, names: Sequence[int], seconds: float) -> HostNetwork:
    """That of the processes of ranks `names` of the job, of which `rank` calls this; `store` is theirs alone.

    They use the first of the networks of member 0 that all of them are in, else they make one.
    """
    store.set(f"networks/{rank}", json.dumps(sorted(_known)))
    everyones = [json.loads(store.get(f"networks/{each}")) for each in range(len(names))]
    common = [name for name in everyones[0] if all(name in others for others in everyones)]
    if common:
        return _known[common[0]]
    if rank == 0:
        store.set("network", json.dumps([secrets.token_hex(8), secrets.token_hex(32)]))
    name, drawn = json.loads(store.get("network"))
    bind, ip = Attendee(rank, len(names)).addresses(lambda: _towards(store))
    key = given_secret()
    if key is None and rank == 0 and not is_loopback(ip):
        _log.warning(
            "The connections of this process group are not protected from those who can read its store: set %s for all processes.", SECRET
        )
    made = HostNetwork(name, names[rank], hmac.digest(key or PUBLIC, drawn.encode(), "sha256"), bind)
    store.set(f"address/{rank}", msgspec.json.encode(msgspec.structs.replace(made.address, ip=ip)).decode())
    found = [store.get(f"address/{each}") for each in range(len(names))]
    made.connect({worker(each): msgspec.json.decode(one, type=Address) for each, one in zip(names, found, strict=True)}, seconds)
    _known[name] = made
    return made


def _towards(store: Store) -> str:
    """The address of this host's interface that leads to the store, or to MASTER_ADDR where the store is a file."""
    while (inner := getattr(store, "underlying_store", None)) is not None:
        store = inner
    host = getattr(store, "host", "") or os.environ.get("MASTER_ADDR", "127.0.0.1")
    found = Names().addresses(host)
    return next(filter(is_loopback, found), "") or next(filter(is_own, found), "") or next(filter(None, map(towards, found)), "127.0.0.1")


def _unrecorded(event: AnyEvent) -> None:
    """Nobody reads the events of these nodes."""


@atexit.register
def _end_all() -> None:
    for each in list(_known.values()):
        each.end()
