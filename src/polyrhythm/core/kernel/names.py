"""The names of actors: "worker/3", "server/0". Runtimes, topologies and reports make and read them by these functions."""

from __future__ import annotations


def worker(rank: int) -> str:
    """The name of the worker of `rank`."""
    return f"worker/{rank}"


def server(shard: int) -> str:
    """The name of the server that holds `shard`."""
    return f"server/{shard}"


FIRST = worker(0)
"""The worker that is the first when a run begins: records and the rendezvous, which have no view, know it by its name."""


def rank_of(name: str) -> int:
    """The rank of a worker, or the shard of a server, by its name."""
    return int(name.rpartition("/")[2])


def is_worker(name: str) -> bool:
    """True if the actor `name` is a worker."""
    return name.startswith("worker/")
