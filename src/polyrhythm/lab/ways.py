"""From a `Network` to the segments between every two hosts: the links that the simulator would take, and the distance.

The order is egress, uplink, capacity between the sites, distance, downlink, ingress. Where two ways share a link in the
network, they share the object. Every queue holds what its rate carries in the longest round trip of those who use it
(one bandwidth-delay product), and at least `LEAST_QUEUE` bytes: less starves TCP, much more delays all by seconds.
"""

from __future__ import annotations

import math

from polyrhythm.hardware.network import Network
from polyrhythm.lab.impairments import Impairments
from polyrhythm.lab.link import Link
from polyrhythm.lab.segments import Distance, Segment

LEAST_QUEUE = 256 * 1024

Key = tuple[str, int, int]


def ways(network: Network, hosts: int, impairments: Impairments) -> list[list[tuple[Segment, ...]]]:
    """The segments by [from][to] among `hosts` hosts, each the host of one worker; empty from a host to itself."""
    pairs = [(a, b) for a in range(hosts) for b in range(hosts) if a != b]
    rates: dict[Key, float] = {}
    longest: dict[Key, float] = {}
    for a, b in pairs:
        round_trip = network.delay(a, b, hosts) + network.delay(b, a, hosts)
        for key, rate in [*_leaving(network, a, b, hosts), *_arriving(network, a, b, hosts)]:
            rates[key] = rate
            longest[key] = max(longest.get(key, 0.0), round_trip)
    links = {key: Link(rate, max(LEAST_QUEUE, rate * longest[key])) for key, rate in rates.items() if rate < math.inf}

    def segments(a: int, b: int) -> tuple[Segment, ...]:
        if a == b:
            return ()
        jitter, loss = impairments.jitter.between(a, b), impairments.loss.between(a, b)
        distance = Distance(network.delay(a, b, hosts), jitter, loss, f"{impairments.seed}/lab/{a}/{b}")
        before = [links[key] for key, _ in _leaving(network, a, b, hosts) if key in links]
        after = [links[key] for key, _ in _arriving(network, a, b, hosts) if key in links]
        return (*before, distance, *after)

    return [[segments(a, b) for b in range(hosts)] for a in range(hosts)]


def least_latency(network: Network, hosts: int) -> float:
    """Seconds between the two nearest of `hosts` hosts; 0 for one host."""
    return min((network.delay(a, b, hosts) for a in range(hosts) for b in range(hosts) if a != b), default=0.0)


def _leaving(network: Network, a: int, b: int, hosts: int) -> list[tuple[Key, float]]:
    here, there = network.site_of(a, hosts), network.site_of(b, hosts)
    own: list[tuple[Key, float]] = [(("egress", a, a), network.access(a, hosts).egress)]
    if here == there:
        return own
    return [*own, (("uplink", here, here), network.sites[here].uplink), (("pair", here, there), network.capacity[here][there])]


def _arriving(network: Network, a: int, b: int, hosts: int) -> list[tuple[Key, float]]:
    here, there = network.site_of(a, hosts), network.site_of(b, hosts)
    own: list[tuple[Key, float]] = [(("ingress", b, b), network.access(b, hosts).ingress)]
    return own if here == there else [(("downlink", there, there), network.sites[there].downlink), *own]
