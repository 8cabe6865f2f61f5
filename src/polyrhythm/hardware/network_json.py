"""A network as JSON, as `network.load` reads it. `calibrate` and the emulation write networks so."""

from __future__ import annotations

import math

import msgspec

from polyrhythm.hardware.description import HostEntry, LinkEntry, NetworkDescription, SiteEntry
from polyrhythm.hardware.network import Network


def network_json(network: Network) -> str:
    """The description of `network`, as a file for `load`: numbers in bytes per second and seconds."""
    names = [site.name for site in network.sites]
    pairs = [(a, b) for a in range(len(names)) for b in range(len(names)) if a != b]
    sites = [
        SiteEntry(
            site.name,
            site.egress,
            site.ingress,
            site.latency,
            _finite(site.uplink),
            _finite(site.downlink),
            _finite(site.medium),
            site.jitter,
            site.meter,
        )
        for site in network.sites
    ]
    links = [
        LinkEntry(names[a], names[b], network.latency[a][b], _finite(network.capacity[a][b]), network.site_jitter(a, b)) for a, b in pairs
    ]
    hosts = [HostEntry(host, access.egress, access.ingress) for host, access in network.accesses]
    written = NetworkDescription(
        network.name,
        sites,
        links,
        hosts,
        network.deal,
        network.placement,
        network.local,
        network.congestion,
        list(network.changes),
        network.loss,
    )
    return msgspec.json.format(msgspec.json.encode(written), indent=2).decode() + "\n"


def _finite(rate: float) -> float | None:
    return None if math.isinf(rate) else rate
