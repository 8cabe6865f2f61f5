"""The exchange of facts and addresses while the processes of a run come together, over the store of their meeting place."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable, Sequence

import msgspec
from torch.distributed import Store  # type: ignore[attr-defined]

from polyrhythm.core.kernel.agreement import Facts, difference
from polyrhythm.core.kernel.names import FIRST, worker
from polyrhythm.core.processes.rendezvous.places import Attendee
from polyrhythm.core.processes.rendezvous.rank_environment import RankEnvironment
from polyrhythm.core.processes.store.torch_store import TorchStore
from polyrhythm.core.processes.transport.addresses import Address
from polyrhythm.errors import CompositionError, RunError

WORKERS = "number of workers"
_CHECK_SECONDS = 30.0


class Rendezvous:
    """The part of the rank of `environment` in one rendezvous of all workers of a run; `close` it.

    `bind` is the address of this host to listen at, found out if none is given, and `ip` the one at which the others reach it. Raises
    RunError if the store cannot be reached within `seconds`.
    """

    def __init__(self, environment: RankEnvironment, seconds: float, bind: str = "") -> None:
        self.rank, self.workers = environment.rank, environment.workers
        self._seconds = seconds
        self._meeting = environment.place.meet(Attendee(self.rank, self.workers, seconds, bind))
        self._store = self._meeting.client
        self.bind, self.ip = self._meeting.bind, self._meeting.ip

    def secret(self) -> bytes:
        """The secret of this run, made from that of the store and what rank 0 draws: no other run has the same."""
        return hmac.digest(self._store.target.key, self.agree("secret", secrets.token_hex(32)).encode(), "sha256")

    def agree(self, key: str, proposal: str, by: int = 0) -> str:
        """The proposal of the rank `by` under `key`, once it is set."""
        if self.rank == by:
            self._store.set(key, proposal.encode())
        return self._get([key], [worker(by)])[0].decode()

    def gather(self, key: str, facts: Facts) -> dict[str, Facts]:
        """The facts of each rank under `key`, by worker."""
        mine = worker(self.rank)
        self._store.set(f"{key}/{self.rank}", msgspec.json.encode(facts))
        first = self._facts(key, [0])
        if first[FIRST].get(WORKERS) != facts.get(WORKERS):  # the others that this rank looks for may not exist
            return {**first, mine: facts}
        return {**first, **self._facts(key, range(1, self.workers))}

    def require_equal(self, facts: Facts) -> None:
        """Raise CompositionError, at all ranks, if they were started with something else."""
        given = self.gather("facts", {WORKERS: str(self.workers), **facts})
        if (found := difference(given)) is not None:
            raise CompositionError(f"{found}: start all workers with the same.")

    def all_can(self, what: str, mine: bool, ranks: Sequence[int] | None = None) -> bool:
        """True if every one of `ranks` can, this one among them; without `ranks`, everyone."""
        self._store.set(f"{what}/{self.rank}", b"yes" if mine else b"no")
        whose = range(self.workers) if ranks is None else ranks
        return all(each == b"yes" for each in self._get([f"{what}/{rank}" for rank in whose], [worker(rank) for rank in whose]))

    def publish(self, actor: str, address: Address) -> None:
        """Publish the address of `actor`."""
        self._store.set(f"address/{actor}", msgspec.json.encode(address))

    def table(self, actors: Iterable[str]) -> dict[str, Address]:
        """The addresses of all `actors`, once all are published."""
        names = list(actors)
        found = self._get([f"address/{name}" for name in names], names)
        return {name: msgspec.json.decode(each, type=Address) for name, each in zip(names, found, strict=True)}

    def torch_store(self) -> Store:
        """A store for communicators of torch, over this one."""
        return TorchStore(self._store, "torch/")

    def stop_listening(self) -> None:
        """Receive no more callers: all have come, but may still need the store."""
        self._meeting.stop_listening()

    def close(self, error: BaseException | None = None) -> None:
        """Leave the store; `error` has ended this worker, if given: then the others, where they still wait for something, get it too."""
        self._meeting.close(error)

    def _facts(self, key: str, ranks: Sequence[int]) -> dict[str, Facts]:
        names = [worker(rank) for rank in ranks]
        found = self._get([f"{key}/{rank}" for rank in ranks], names)
        return {name: msgspec.json.decode(each, type=dict[str, str]) for name, each in zip(names, found, strict=True)}

    def _get(self, keys: Sequence[str], whose: Sequence[str]) -> list[bytes]:
        """The values of `keys`, each of which one of `whose` is to set."""
        try:
            return self._store.get(keys, self._seconds)
        except TimeoutError:
            there = self._store.check(keys, _CHECK_SECONDS)
            missing = [who for who, found in zip(whose, there, strict=True) if not found] or whose
            strangers = self._meeting.rejected
            raise RunError(
                f"{missing[0]}{f' and {len(missing) - 1} more have' if len(missing) > 1 else ' has'} not joined at "
                f"{self._store.target.ip}:{self._store.target.port} within {self._seconds:g} seconds"
                f"{f', and {strangers} callers did not have the secret' if strangers else ''}: look whether that process has started, and "
                f"start all with the same MASTER_ADDR, MASTER_PORT{' and POLYRHYTHM_SECRET' if strangers else ''}."
            ) from None
