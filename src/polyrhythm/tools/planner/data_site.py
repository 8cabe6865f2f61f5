"""Data that lie at one site: the time in which the machines elsewhere get theirs, before they train or while they do.

Each worker fetches its own share, all at once. The line that carries most for its rate decides how long that takes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Protocol

from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError, unknown
from polyrhythm.hardware.network import Network
from polyrhythm.tools.planner.products import product


class DataSite(Protocol):
    """Where the data of a JOB lie."""

    @property
    def site(self) -> str:
        """The site, by its name in the network."""

    @property
    def nbytes(self) -> float:
        """The bytes of all data."""

    def delayed(self, seconds: float, part: float, fetching: float) -> float:
        """The moment at which a worker is that would be there at `seconds`, with so great a `part` of all data used; getting all takes
        `fetching` seconds."""


@dataclass(frozen=True, slots=True)
@checked
class FetchedBefore:
    """The data are copied to the machines before the training begins."""

    site: str
    nbytes: float

    def __post_init__(self) -> None:
        refuse_no_data(self)

    def delayed(self, seconds: float, part: float, fetching: float) -> float:
        """All of them have come first."""
        return fetching + seconds


@dataclass(frozen=True, slots=True)
@checked
class FetchedMeanwhile:
    """The data come while the training uses them, ahead of it, and again in each pass.

    The lines are taken to have room for them beside what the workers exchange.
    """

    site: str
    nbytes: float

    def __post_init__(self) -> None:
        refuse_no_data(self)

    def delayed(self, seconds: float, part: float, fetching: float) -> float:
        """It waits for them where they come more slowly than they are used."""
        return max(seconds, product(part, fetching))


def refuse_no_data(data: DataSite) -> None:
    """Raise CompositionError where there are no bytes."""
    if not 0 < data.nbytes < math.inf:
        raise CompositionError(f"{data} has no data that could be fetched: give the bytes of all, more than 0.")


def fetching_seconds(data: DataSite, network: Network, workers: int) -> float:
    """The seconds until each worker that is elsewhere has its share of all data. Raises UnknownNameError for a site that is not there."""
    names = [site.name for site in network.sites]
    if data.site not in names:
        raise unknown("site", data.site, names)
    home, share = names.index(data.site), data.nbytes / workers
    elsewhere = [place for place in range(workers) if network.site_of(place, workers) != home]
    loads: defaultdict[int, float] = defaultdict(float)
    seconds = [0.0]
    for place in elsewhere:
        there = network.site_of(place, workers)
        seconds.append(share / network.access(place, workers).ingress)
        loads[there] += share
    for far, nbytes in loads.items():
        site = network.sites[far]
        seconds += [nbytes / each for each in (site.downlink, site.medium, network.capacity[home][far])]
    source = network.sites[home]
    seconds += [sum(loads.values()) / each for each in (source.egress, source.uplink, source.medium)]
    return max(seconds)
