"""Metered lines: what a gigabyte costs, and how many a line may carry, as a network file says of a site.

"meter": {"type": "HostLines", "gigabyte": 0.5, "cap": "50 GB"}     each of its hosts has such a line: a phone, a home
"meter": {"type": "SentOut", "gigabyte": 0.09}                      what its hosts send to other sites: a cloud's region
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from polyrhythm.core import units
from polyrhythm.errors import CompositionError

Quantity = str | float


class HostTraffic(NamedTuple):
    """Bytes that went from one host to another, with the names of both hosts and of their sites."""

    source: str
    target: str
    source_site: str
    target_site: str
    nbytes: float


class LineUse(NamedTuple):
    """A metered line: the bytes that it carried, the price of a gigabyte, and the bytes that it may carry."""

    nbytes: float
    gigabyte: float
    cap: float


class HostLines(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True, omit_defaults=True):
    """Each host of the site has a line that counts what it sends and receives: `gigabyte` is the price of one, `cap` all it may carry."""

    gigabyte: float = 0.0
    cap: Quantity = math.inf

    def __post_init__(self) -> None:
        refuse_impossible(self, self.gigabyte, units.size(self.cap))

    def lines(self, site: str, traffic: Iterable[HostTraffic]) -> Mapping[str, float]:
        """The bytes of each line of the `site`, by host; what stays in a host goes over none."""
        found: defaultdict[str, float] = defaultdict(float)
        for each in traffic:
            if each.source != each.target:
                ends = ((each.source, each.source_site), (each.target, each.target_site))
                for host in (host for host, there in ends if there == site):
                    found[f"the line of {host}"] += each.nbytes
        return found


class SentOut(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True, omit_defaults=True):
    """What hosts of the site send to other sites is counted, all together: `gigabyte` is the price of one, `cap` the most of them."""

    gigabyte: float = 0.0
    cap: Quantity = math.inf

    def __post_init__(self) -> None:
        refuse_impossible(self, self.gigabyte, units.size(self.cap))

    def lines(self, site: str, traffic: Iterable[HostTraffic]) -> Mapping[str, float]:
        """The bytes that leave the `site`."""
        return {f"the line out of {site}": sum(each.nbytes for each in traffic if each.source_site == site != each.target_site)}


Meter = HostLines | SentOut


def refuse_impossible(meter: Meter, price: float, cap: float) -> None:
    """Raise CompositionError for a price or a cap that cannot be."""
    if not 0 <= price < math.inf or not cap > 0:
        raise CompositionError(f"{meter} cannot be: give a price of 0 or more, and a cap of more than 0 bytes.")


def metered(meters: Mapping[str, Meter], traffic: Iterable[HostTraffic]) -> dict[str, LineUse]:
    """What each metered line has carried, by its name; `meters` are those of sites by name."""
    every = list(traffic)
    return {
        line: LineUse(nbytes, meter.gigabyte, units.size(meter.cap))
        for site, meter in meters.items()
        for line, nbytes in meter.lines(site, every).items()
    }
