"""The same machines with one thing changed: what a run waits for, what would harm it, and what would help."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from polyrhythm.hardware.fleet import Fleet, Straggler
from polyrhythm.hardware.network import Access, Network, Site
from polyrhythm.tools.planner.scenario import Scenario

_UNLIMITED = 1e4
_SLOWER = 3.0
_TEN = 10.0

Circumstance = Callable[[Scenario, int], Scenario]
"""Other machines, for so many workers."""


def with_links(network: Network, bandwidth: float = 1.0, latency: float = 1.0) -> Network:
    """The network with all bandwidths and latencies between hosts times these factors; within a host nothing changes."""

    def changed(site: Site) -> Site:
        return replace(
            site,
            egress=site.egress * bandwidth,
            ingress=site.ingress * bandwidth,
            latency=site.latency * latency,
            uplink=site.uplink * bandwidth,
            downlink=site.downlink * bandwidth,
            medium=site.medium * bandwidth,
            jitter=site.jitter * latency,
        )

    return replace(
        network,
        sites=tuple(map(changed, network.sites)),
        latency=tuple(tuple(each * latency for each in row) for row in network.latency),
        capacity=tuple(tuple(each * bandwidth for each in row) for row in network.capacity),
        jitter=tuple(tuple(each * latency for each in row) for row in network.jitter),
        accesses=tuple((host, Access(own.egress * bandwidth, own.ingress * bandwidth)) for host, own in network.accesses),
    )


def links(bandwidth: float = 1.0, latency: float = 1.0) -> Circumstance:
    """A circumstance in which bandwidths and latencies are multiplied by these factors."""
    return lambda here, workers: here.elsewhere(network=with_links(here.network, bandwidth, latency))


def _slower(machines: Fleet, rank: int, factor: float) -> Fleet:
    return replace(machines, paces=(*machines.paces, Straggler(machines.place(rank), factor)))


def _straggler(here: Scenario, workers: int) -> Scenario:
    return here.elsewhere(devices=_slower(here.devices, workers - 1, _SLOWER))


def _faster(here: Scenario, workers: int) -> Scenario:
    machines = here.devices
    for rank in range(workers):
        machines = _slower(machines, rank, 0.5)
    return here.elsewhere(devices=machines)


def _alike(here: Scenario, workers: int) -> Scenario:
    return here.elsewhere(devices=Fleet(here.devices.machines[:1]))


CAUSES: Mapping[str, Circumstance] = {
    "bandwidth": links(bandwidth=_UNLIMITED),
    "network": links(bandwidth=_UNLIMITED, latency=0.0),
}
"""Without one of these, what is left is waited for otherwise."""

RISKS: Mapping[str, Circumstance] = {
    "a straggler": _straggler,
    "slow links": links(bandwidth=1 / _TEN),
}
"""A worker that takes three times as long; a tenth of all bandwidths."""

REMEDIES: Mapping[str, Circumstance] = {
    "ten times the bandwidth": links(bandwidth=_TEN),
    "a tenth of the latency": links(latency=1 / _TEN),
    "processors twice as fast": _faster,
    "workers as fast as the first, without pauses": _alike,
}
"""What might be bought or mended."""
