"""A key-value store of torch.distributed that the processes have already, as the place where they read where to meet."""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import torch.distributed as dist
from torch.distributed import PrefixStore, Store, TCPStore  # type: ignore[attr-defined]

from polyrhythm.core.kernel.names import worker
from polyrhythm.core.processes.rendezvous.hosts import Names, is_loopback, is_own, towards
from polyrhythm.core.processes.rendezvous.places import Attendee, Meeting, keep_store, open_store, warn_unprotected
from polyrhythm.core.processes.rendezvous.secret import SECRET, given_secret
from polyrhythm.core.processes.store.attempt import StoreTarget
from polyrhythm.core.processes.store.store_client import StoreClient
from polyrhythm.errors import RunError

_ANYWHERE = "198.51.100.1"
"""Reserved for documentation (RFC 5737): a route to it is the one to hosts of which nothing is known."""


class _Announcement(msgspec.Struct, frozen=True):
    """The address of rank 0's store. It has the `key` if the processes were not started with a secret, a `proof` if they were."""

    ip: str
    port: int
    key: str = ""
    proof: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """Rank 0 keeps the store at a free port, and publishes that under `name` in the store of torch that `open_store` gives.

    That one is not protected, so nothing else goes there; where POLYRHYTHM_SECRET is set, the announcement is signed with it. A later one
    takes the place of an earlier one, for processes that join again.
    """

    open_store: Callable[[], Store]
    name: str = "polyrhythm/rendezvous"
    host: str = ""
    """A host that all can reach, where one is known."""

    def meet(self, who: Attendee) -> Meeting:
        try:
            store = self.open_store()
            return self._read(who, store) if who.rank else self._keep(who, store)
        except (dist.DistError, RuntimeError) as problem:
            if isinstance(problem, RunError):
                raise
            raise RunError(
                f"The store of torch.distributed cannot be used for the rendezvous: {str(problem).partition(chr(10))[0]}"
            ) from problem

    def _keep(self, who: Attendee, store: Store) -> Meeting:
        shared, addresses = given_secret(), who.addresses(lambda: self._own(store))
        key = shared or secrets.token_bytes(32)
        server = open_store(addresses[0], 0, who.workers, key)
        ip, port = addresses[1], server.address[1]
        announced = _Announcement(ip, port, proof=_proof(shared, ip, port)) if shared else _Announcement(ip, port, key=key.hex())
        store.set(self.name, msgspec.json.encode(announced).decode())
        if shared is None:
            warn_unprotected(server.address, who.workers)
        return keep_store(who, server, key, addresses)

    def _read(self, who: Attendee, store: Store) -> Meeting:
        shared = given_secret()

        def find() -> StoreTarget | None:
            if not store.check([self.name]):
                return None
            latest = msgspec.json.decode(store.get(self.name), type=_Announcement)
            if shared is not None and not hmac.compare_digest(latest.proof, _proof(shared, latest.ip, latest.port)):
                raise RunError(
                    f"The address of worker/0's store, {latest.ip}:{latest.port}, is not signed with the {SECRET} of this process: start "
                    "all processes with the same."
                )
            return StoreTarget(latest.ip, latest.port, shared or bytes.fromhex(latest.key))

        client = StoreClient(worker(who.rank), find, who.seconds, "the store of the rendezvous, whose address worker/0 publishes,")
        return Meeting(client, None, *who.addresses(lambda: towards(client.target.ip)))

    def _own(self, store: Store) -> str:
        """The address of this host towards the others, as far as can be seen: torch's choice, else the interface of the default route."""
        host = self.host or _host_of(store)
        found = Names().addresses(host) if host else []
        loopback = next(filter(is_loopback, found), "")
        return loopback or next(filter(is_own, found), "") or next(filter(None, map(towards, [*found, _ANYWHERE])), "127.0.0.1")


def _proof(key: bytes, ip: str, port: int) -> str:
    return hmac.digest(key, f"store\n{ip}\n{port}".encode(), "sha256").hex()


def _host_of(store: Store) -> str:
    """The host of torch's own store, if it has one."""
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    return store.host if isinstance(store, TCPStore) else os.environ.get("MASTER_ADDR", "")
