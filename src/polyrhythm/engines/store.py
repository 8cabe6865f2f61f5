"""The rendezvous store that a driver keeps for one attempt at a run."""

from __future__ import annotations

from torch.distributed import TCPStore  # type: ignore[attr-defined]


class Store:
    """At `host` and `port` for `workers` tasks."""

    def __init__(self, ip: str, secret: bytes, workers: int) -> None:
        self._store: TCPStore | None = TCPStore(ip, 0, is_master=True, wait_for_workers=False)
        self.host, self.port = ip, self._store.port

    def close(self) -> None:
        """Let nobody join any more."""
        self._store = None
