"""From a `Network` to the segments between every two hosts: the links that the simulator would take, and the distance.

The order is egress, shared medium, uplink, capacity between the sites, distance, downlink, shared medium, ingress. Where two paths share
a link in the network, they share the object. Every queue holds `ROUND_TRIPS` times what its rate carries in the longest round trip of its
flows, and at least `LEAST_QUEUE` bytes. The network's description has no loss, so TCP must not lose packets here either; connections that
share a queue take turns, so that none waits for the whole queue of another.
"""

from __future__ import annotations

import math

from polyrhythm.hardware.network import Network
from polyrhythm.hardware.timetable import LinkKey
from polyrhythm.tools.emulation.fair_link import FairLink
from polyrhythm.tools.emulation.impairments import Impairments
from polyrhythm.tools.emulation.segments import Distance, PathSegment

LEAST_QUEUE = 4 * 1024**2
"""As much as Linux lets one connection have on the way (the most of tcp_wmem). On a short path the hosts' turns at the cores make a
round trip longer than the line does: with 256 KiB two pushes that met on 1 Gbit/s and 0.1 ms lost 4 to 10 % of their packets, and
some then stood still for the 0.2 s that Linux waits at least before it sends again. With this they lose none under BBR; two connections
that look for a loss (Reno, CUBIC) still find one."""
ROUND_TRIPS = 3
"""BBR has up to 2.89 bandwidth-delay products on the way while it looks for the rate, and programs that send now and then keep it
looking. With one a ring of 4.5 MB over `wan-3` lost some 40 packets a round and took 1.28 to 1.33 s; with three it takes the
1.133 s of the simulator's."""

Links = dict[LinkKey, FairLink]


def fair_links(network: Network, hosts: int) -> Links:
    """All links among `hosts` hosts that have a bandwidth."""
    pairs = [(a, b) for a in range(hosts) for b in range(hosts) if a != b]
    rates: dict[LinkKey, float] = {}
    longest: dict[LinkKey, float] = {}
    for a, b in pairs:
        round_trip = network.delay(a, b, hosts) + network.delay(b, a, hosts)
        for key, rate in [*_leaving(network, a, b, hosts), *_arriving(network, a, b, hosts)]:
            rates[key] = rate
            longest[key] = max(longest.get(key, 0.0), round_trip)
    return {key: FairLink(rate, max(LEAST_QUEUE, ROUND_TRIPS * rate * longest[key])) for key, rate in rates.items() if rate < math.inf}


def ways(network: Network, hosts: int, impairments: Impairments, links: Links) -> list[list[tuple[PathSegment, ...]]]:
    """The segments by `[from][to]` among `hosts` hosts, each the host of one worker; empty from a host to itself."""

    def segments(a: int, b: int) -> tuple[PathSegment, ...]:
        if a == b:
            return ()
        jitter, loss = swing(network, impairments, a, b, hosts), impairments.loss.between(a, b)
        distance = Distance(network.delay(a, b, hosts), jitter, loss, f"{impairments.seed}/lab/{a}/{b}")
        before = [links[key] for key, _ in _leaving(network, a, b, hosts) if key in links]
        after = [links[key] for key, _ in _arriving(network, a, b, hosts) if key in links]
        return (*before, distance, *after)

    return [[segments(a, b) for b in range(hosts)] for a in range(hosts)]


def swing(network: Network, impairments: Impairments, a: int, b: int, hosts: int) -> float:
    """By how many seconds the latency from host `a` to host `b` may differ: the network's jitter and that of the lab."""
    own = network.site_jitter(network.site_of(a, hosts), network.site_of(b, hosts))
    return own + impairments.jitter.between(a, b)


def least_latency(network: Network, hosts: int) -> float:
    """Seconds between the two nearest of `hosts` hosts; 0 for one host."""
    return min((network.delay(a, b, hosts) for a in range(hosts) for b in range(hosts) if a != b), default=0.0)


def _leaving(network: Network, a: int, b: int, hosts: int) -> list[tuple[LinkKey, float]]:
    here, there = network.site_of(a, hosts), network.site_of(b, hosts)
    own: list[tuple[LinkKey, float]] = [
        (LinkKey("egress", a, a), network.access(a, hosts).egress),
        (LinkKey("medium", here, here), network.sites[here].medium),
    ]
    if here == there:
        return own
    return [
        *own,
        (LinkKey("uplink", here, here), network.sites[here].uplink),
        (LinkKey("pair", here, there), network.capacity[here][there]),
    ]


def _arriving(network: Network, a: int, b: int, hosts: int) -> list[tuple[LinkKey, float]]:
    here, there = network.site_of(a, hosts), network.site_of(b, hosts)
    own: list[tuple[LinkKey, float]] = [
        (LinkKey("medium", there, there), network.sites[there].medium),
        (LinkKey("ingress", b, b), network.access(b, hosts).ingress),
    ]
    return own if here == there else [(LinkKey("downlink", there, there), network.sites[there].downlink), *own]
