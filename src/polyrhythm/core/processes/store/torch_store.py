"""A store of ours for parts of torch that want one of theirs, such as the communicators of NCCL: nothing unprotected listens for them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from torch.distributed import Store  # type: ignore[attr-defined]

from polyrhythm.core.processes.store.store_client import StoreClient

_SECONDS = 300.0


class TorchStore(Store):
    """A store for torch, answered by the one that `client` is connected with; keys have `prefix`.

    A subclass, because torch's C++ code calls the methods of a `Store`, and takes no other object for one.
    """

    def __init__(self, client: StoreClient, prefix: str) -> None:
        Store.__init__(self)
        self._client = client
        self._prefix = prefix
        self._seconds = _SECONDS
        self._clones: list[Store] = []

    def set(self, key: str, value: str | bytes) -> None:
        """Set `key` to `value`; does not wait for the store."""
        self._client.set(self._prefix + key, value.encode() if isinstance(value, str) else bytes(value))

    def get(self, key: str) -> bytes:
        """The value of `key`, once it is set. Raises TimeoutError where that takes too long."""
        return self._client.get([self._prefix + key], self._seconds)[0]

    def add(self, key: str, amount: int) -> int:
        """Add to the number under `key`; the sum."""
        return self._client.add(self._prefix + key, amount, self._seconds)

    def check(self, keys: Sequence[str]) -> bool:
        """True if all of `keys` are set."""
        return all(self._client.check([self._prefix + key for key in keys], self._seconds))

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Return when all of `keys` are set."""
        seconds = self._seconds if timeout is None else timeout.total_seconds()
        self._client.get([self._prefix + key for key in keys], seconds)

    def clone(self) -> Store:
        """Another one over the same connection, which several threads may use; kept with this one, since C++ keeps no Python object."""
        self._clones.append(TorchStore(self._client, self._prefix))
        return self._clones[-1]

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the time that requests wait from now on."""
        self._seconds = timeout.total_seconds()

    @property
    def timeout(self) -> timedelta:
        """The time that requests wait."""
        return timedelta(seconds=self._seconds)
