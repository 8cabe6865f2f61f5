"""The times at which links of a network get another bandwidth. The simulator and the relay of `polyrhythm lab` apply these changes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from polyrhythm.core import units
from polyrhythm.errors import CompositionError, unknown
from polyrhythm.hardware.changes import ChangeEntry, Quantity
from polyrhythm.hardware.network import Network


class LinkKey(NamedTuple):
    """A link of a network: "egress" or "ingress" of a host, "uplink", "downlink" or "medium" of a site, or a "pair" of sites.

    Source and target are the same host or site, but for a pair.
    """

    kind: str
    source: int
    target: int


_WORDS = {
    "egress": "sends at",
    "ingress": "receives at",
    "uplink": "uplink of",
    "downlink": "downlink of",
    "medium": "medium of",
    "pair": "connection of",
}


class BandwidthChange(NamedTuple):
    """From `at` seconds on `link` has `bandwidth` bytes per second; `place` and `what` say so in words."""

    at: float
    link: LinkKey
    bandwidth: float
    place: str

    @property
    def what(self) -> str:
        """The link and its bandwidth."""
        return f"{_WORDS[self.link.kind]} {self.bandwidth * 8 / 1e6:g} Mbit/s"


def timetable(network: Network, workers: int) -> list[BandwidthChange]:
    """The changes in time, link by link, in a job of `workers` workers.

    Raises CompositionError for a host that is not there or an unlimited link, and UnknownNameError for a site that does not exist.
    """
    names = [site.name for site in network.sites]
    changes = []
    for entry in network.changes:
        for key, rate, before in _links_of(network, entry, names, workers):
            if rate is None:
                continue
            if math.isinf(before):
                raise CompositionError(
                    f"The network {network.name!r} changes its {key.kind} bandwidth at {entry.at}, which is unlimited before: give it one."
                )
            bandwidth = units.bandwidth(rate)
            if not 0 < bandwidth < math.inf:
                raise CompositionError(
                    f"The network {network.name!r} has a change to {rate!r}: give a bandwidth above zero, or use a Disconnect."
                )
            place = f"host/{entry.host}" if entry.host is not None else f"site/{names[key.source]}"
            changes += [BandwidthChange(at, key, bandwidth, place) for at in entry.moments]
    return sorted(changes)


def _links_of(network: Network, entry: ChangeEntry, names: Sequence[str], workers: int) -> list[tuple[LinkKey, Quantity | None, float]]:
    """The links that `entry` is about, with what it gives them and what they have at the beginning."""
    if entry.host is not None:
        if not 0 <= entry.host < workers:
            raise CompositionError(f"The network {network.name!r} changes host {entry.host}, and there are {workers} hosts, from 0 on.")
        access = network.access(entry.host, workers)
        own = (entry.host, entry.host)
        return [(LinkKey("egress", *own), entry.egress, access.egress), (LinkKey("ingress", *own), entry.ingress, access.ingress)]
    for given in filter(None, (entry.site, entry.source, entry.target)):
        if given not in names:
            raise unknown("site", given, names)
    if entry.site is not None:
        here = names.index(entry.site)
        site = network.sites[here]
        return [
            (LinkKey("uplink", here, here), entry.uplink, site.uplink),
            (LinkKey("downlink", here, here), entry.downlink, site.downlink),
            (LinkKey("medium", here, here), entry.medium, site.medium),
        ]
    a, b = (names.index(given) for given in (entry.source, entry.target) if given is not None)
    return [(LinkKey("pair", *pair), entry.bandwidth, network.capacity[pair[0]][pair[1]]) for pair in ((a, b), (b, a))]
