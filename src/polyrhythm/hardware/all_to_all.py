"""The duration of an all-to-all exchange on a network: every worker sends as much to every other, all at the same time."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from polyrhythm.hardware.network import Network

_TOLERANCE = 1e-12
"""Times that differ relatively by less are one: the difference is rounding."""

Pair = tuple[int, int]
_Link = tuple[str, int, int]


def seconds_per_byte(network: Network, workers: int) -> dict[Pair, float]:
    """By (from site, to site), the seconds until the last byte of such a message has left, for each byte that all messages have.

    Messages share the links max-min fairly, as in `simulator.flows`; all of a pair of sites are alike, so that this takes S^2 kinds of flow
    for S sites and not P^2 flows. A site's hosts are taken to be like its slowest one, and none is on the host of another.
    """
    hosts = Counter(network.site_of(worker, workers) for worker in range(workers))
    kinds = [_Kind(a, b, _links(hosts, a, b)) for a in hosts for b in hosts if a != b or hosts[a] > 1]
    capacities = _capacities(network, workers)
    now, taken = 0.0, dict[Pair, float]()
    while kinds:
        _fill(kinds, capacities)
        seconds = min(kind.left / kind.rate for kind in kinds)
        now += seconds
        for kind in kinds:
            kind.left -= kind.rate * seconds
        taken |= {(kind.source, kind.target): now for kind in kinds if kind.left <= _TOLERANCE}
        kinds = [kind for kind in kinds if kind.left > _TOLERANCE]
    return taken


@dataclass(slots=True)
class _Kind:
    """The flows from a site to a site. `loads` is how many of them each link of one of them carries."""

    source: int
    target: int
    loads: dict[_Link, int]
    left: float = 1.0
    rate: float = field(default=0.0)


def _links(hosts: Counter[int], a: int, b: int) -> dict[_Link, int]:
    here, there = hosts[a] - (a == b), hosts[b] - (a == b)
    loads = {("egress", a, a): there, ("ingress", b, b): here}
    if a != b:
        shared = (("uplink", a, a), ("pair", a, b), ("downlink", b, b))
        loads |= dict.fromkeys(shared, hosts[a] * hosts[b])
    return loads


def _capacities(network: Network, workers: int) -> dict[_Link, float]:
    """The capacity of each link, in bytes per second."""
    found: dict[_Link, float] = {}
    for worker in range(workers):
        at, access = network.site_of(worker, workers), network.access(worker, workers)
        for link, rate in ((("egress", at, at), access.egress), (("ingress", at, at), access.ingress)):
            found[link] = min(found.get(link, math.inf), rate)
    for a, site in enumerate(network.sites):
        found |= {("uplink", a, a): site.uplink, ("downlink", a, a): site.downlink}
        found |= {("pair", a, b): network.capacity[a][b] for b in range(len(network.sites)) if a != b}
    return found


def _fill(kinds: list[_Kind], capacities: dict[_Link, float]) -> None:
    """Give each kind its max-min fair rate, by progressive filling (Bertsekas and Gallager, 1992, section 6.5.2)."""
    left = dict(capacities)
    growing = kinds
    while growing:
        loads: Counter[_Link] = Counter()
        for kind in growing:
            loads.update(kind.loads)
        pace = {link: left[link] / load for link, load in loads.items()}
        least = min(pace.values()) * (1 + _TOLERANCE)
        full = {link for link, rate in pace.items() if rate <= least}
        settled = [kind for kind in growing if not full.isdisjoint(kind.loads)]
        for kind in settled:
            kind.rate = min(pace[link] for link in kind.loads)
        for kind in settled:
            for link, load in kind.loads.items():
                left[link] -= load * kind.rate
        growing = [kind for kind in growing if full.isdisjoint(kind.loads)]
