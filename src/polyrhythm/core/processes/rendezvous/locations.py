"""The locations of the workers of a joined run: each one's site and host, gathered before the run is planned."""

from __future__ import annotations

import os

from polyrhythm.core.kernel.location import Location, unplaced
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.processes.rendezvous.rendezvous import WORKERS, Rendezvous

SITE, HOST = "POLYRHYTHM_SITE", "POLYRHYTHM_HOST_ID"
"""Environment variables: the name of a worker's site (the same for all if unset), and of its host, if addresses do not determine it."""


def locate(rendezvous: Rendezvous) -> tuple[Location, ...]:
    """The locations of all workers, by rank: the same at every one of them. Raises RunError if others do not come."""
    workers = rendezvous.workers
    host = os.environ.get(HOST, "") or (rendezvous.ip if workers > 1 else "")
    given = rendezvous.gather("location", {WORKERS: str(workers), "site": os.environ.get(SITE, ""), "host": host})
    if len(given) < workers:
        return unplaced(workers)  # started with different numbers of workers, which is refused next
    return tuple(Location(given[name]["site"], given[name]["host"]) for name in map(worker, range(workers)))
