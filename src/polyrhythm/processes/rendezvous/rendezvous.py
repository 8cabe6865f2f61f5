"""Where processes on several hosts find each other: a key-value store of torch.distributed.

The store is not protected: any process that reaches its port can read the secret, unless POLYRHYTHM_SECRET holds one that all
processes were started with.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterable, Sequence
from datetime import timedelta

import msgspec
from torch.distributed import DistError, Store, TCPStore  # type: ignore[attr-defined]

from polyrhythm.errors import CompositionError, RunError
from polyrhythm.kernel.agreement import Facts, difference
from polyrhythm.kernel.names import worker
from polyrhythm.processes.rendezvous.rank_environment import RankEnvironment
from polyrhythm.processes.transport.addresses import Address

_OPENING_SECONDS = 30.0
WORKERS = "number of workers"

# a process may join several times, one after another: the store stays, each time has its own keys
_stores: dict[tuple[str, int], Store] = {}
_times = 0


class Rendezvous:
    """One rendezvous of all the actors of a run."""

    def __init__(self, environment: RankEnvironment, seconds: float) -> None:
        """Open the store of `environment`, waiting at most `seconds` for it and the others. Raises RunError if it cannot be reached."""
        global _times
        self._environment = environment
        self._seconds = seconds
        key = (environment.host, environment.port)
        keeper = environment.rank == 0 and not environment.agent
        # the rank that keeps the store waits only for this machine to open it, not for others to join
        initial = max(seconds, _OPENING_SECONDS) if keeper else seconds
        try:
            if key not in _stores:
                _stores[key] = TCPStore(
                    environment.host, environment.port, is_master=keeper, wait_for_workers=False, timeout=timedelta(seconds=initial)
                )
            _stores[key].set_timeout(timedelta(seconds=seconds))
        except (DistError, RuntimeError) as problem:
            raise RunError(
                f"The rendezvous store at {environment.host}:{environment.port} cannot be reached: {_first_line(problem)}"
            ) from problem
        self._store = _stores[key]
        _times += 1  # not if there was no store: the others have not joined either
        self._prefix = f"polyrhythm/{environment.attempt}/{_times}/"

    def secret(self) -> bytes:
        """The secret of this run: from POLYRHYTHM_SECRET, or made by rank 0."""
        given = os.environ.get("POLYRHYTHM_SECRET")
        if given:
            return hashlib.sha256(given.encode()).digest()
        return bytes.fromhex(self.agree("secret", secrets.token_hex(32)))

    def agree(self, key: str, proposal: str, by: int = 0) -> str:
        """What the rank `by` proposes under `key`."""
        if self._environment.rank == by:
            self._store.set(self._prefix + key, proposal)
        return self._get(key, f"rank {by}").decode()

    def gather(self, key: str, facts: Facts) -> dict[str, Facts]:
        """The facts of each rank under `key`, by worker."""
        self._store.set(f"{self._prefix}{key}/{self._environment.rank}", msgspec.json.encode(facts).decode())
        given: dict[str, Facts] = {}
        for rank in range(self._environment.workers):
            given[worker(rank)] = msgspec.json.decode(self._get(f"{key}/{rank}", worker(rank)), type=dict[str, str])
            if given[worker(0)].get(WORKERS) != facts.get(WORKERS):  # the others that this rank looks for may not exist
                return {worker(0): given[worker(0)], worker(self._environment.rank): facts}
        return given

    def require_equal(self, facts: Facts) -> None:
        """Raise CompositionError, at all ranks, if they were started with something else."""
        given = self.gather("facts", {WORKERS: str(self._environment.workers), **facts})
        if (found := difference(given)) is not None:
            raise CompositionError(f"{found}: start all workers with the same.")

    def all_can(self, what: str, mine: bool, ranks: Sequence[int] | None = None) -> bool:
        """Whether every one of `ranks` can, this one among them; without `ranks`, everyone."""
        self._store.set(f"{self._prefix}{what}/{self._environment.rank}", "yes" if mine else "no")
        whose = range(self._environment.workers) if ranks is None else ranks
        return all(self._get(f"{what}/{rank}", worker(rank)) == b"yes" for rank in whose)

    def publish(self, actor: str, address: Address) -> None:
        """Publish where `actor` is."""
        self._store.set(f"{self._prefix}address/{actor}", msgspec.json.encode(address).decode())

    def table(self, actors: Iterable[str]) -> dict[str, Address]:
        """Where all `actors` are, once all are published."""
        return {actor: msgspec.json.decode(self._get(f"address/{actor}", actor), type=Address) for actor in actors}

    def _get(self, key: str, who: str) -> bytes:
        try:
            found: bytes = self._store.get(self._prefix + key)
        except (DistError, RuntimeError) as problem:
            raise RunError(
                f"{who} has not joined at {self._environment.host}:{self._environment.port} within {self._seconds:g} seconds: start all "
                "processes with the same MASTER_ADDR and MASTER_PORT."
            ) from problem
        return found


def _first_line(problem: Exception) -> str:
    return str(problem).partition("\n")[0]
