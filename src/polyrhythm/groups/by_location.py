"""Groups by location: the workers of a site, or of a host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polyrhythm.core.kernel.location import Location


@dataclass(frozen=True, slots=True)
class BySite:
    """The workers of a site are a group, in the order of the sites' first workers."""

    def divide(self, locations: Sequence[Location]) -> list[list[int]]:
        """Groups by the names of sites."""
        return _alike([location.site for location in locations])


@dataclass(frozen=True, slots=True)
class ByHost:
    """The workers of a host are a group, in the order of the hosts' first workers."""

    def divide(self, locations: Sequence[Location]) -> list[list[int]]:
        """Groups by the names of sites and hosts."""
        return _alike([(location.site, location.host) for location in locations])


def _alike(keys: Sequence[object]) -> list[list[int]]:
    found: dict[object, list[int]] = {}
    for rank, key in enumerate(keys):
        found.setdefault(key, []).append(rank)
    return list(found.values())
