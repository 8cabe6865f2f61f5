"""The places of workers. Runtimes give them, and strategies divide workers into groups by them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Location:
    """The place of a worker: its site and its host, by names that are the same at all workers."""

    site: str
    host: str


def unplaced(workers: int) -> tuple[Location, ...]:
    """The locations where nothing is known of sites: each worker on a separate host, all at one site."""
    return tuple(Location("", f"host/{rank}") for rank in range(workers))
