"""Which links a message takes from one actor to another."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from polyrhythm.hardware.network import Network
from polyrhythm.simulator.connection import Connection, Endpoint, SharedLink


class Routes:
    """The links of `network` among `workers` workers and any servers; they are made when first used.

    `places` is the length of the longest route.
    """

    def __init__(self, network: Network, workers: int) -> None:
        self._network = network
        self._workers = workers
        self._endpoints: dict[str, Endpoint] = {}
        self._host_links: dict[int, tuple[SharedLink, SharedLink]] = {}
        self._shared_links: dict[tuple[str, int, int], SharedLink] = {}
        self._ways: dict[tuple[int, int], tuple[tuple[SharedLink, ...], float]] = {}
        self._capacity: list[float] = [math.inf]  # by link index; link 0 pads short routes
        self._capacities: NDArray[np.float64] = np.array(self._capacity)
        self.places = 2 if len(network.sites) == 1 else 5

    def capacities(self) -> NDArray[np.float64]:
        """Bytes per second by link index; not to be written to."""
        if len(self._capacities) < len(self._capacity):
            self._capacities = np.array(self._capacity)
        return self._capacities

    def connect(self, sender: str, receiver: str) -> Connection:
        """A new connection; it has no links where both actors are on one host."""
        here, there = self.endpoint(sender), self.endpoint(receiver)
        if here.host == there.host:
            local = self._network.local
            return Connection(here, there, (), local.bandwidth, local.latency, 2 * local.latency)
        shared, latency = self._ways.get((here.site, there.site)) or self._way(here.site, there.site)
        links = (here.egress, *shared, there.ingress)
        return Connection(
            here, there, links, min([link.capacity for link in links]), latency, latency + self._network.site_delay(there.site, here.site)
        )

    def endpoint(self, actor: str) -> Endpoint:
        """Where `actor` is."""
        found = self._endpoints.get(actor)
        if found is None:
            network, workers = self._network, self._workers
            host = network.host_of(actor, workers)
            if host not in self._host_links:
                access = network.access(host, workers)
                self._host_links[host] = (self._link(access.egress), self._link(access.ingress))
            site = network.site_of(host, workers)
            found = Endpoint(actor, host, site, network.sites[site].name, self._host_links[host])
            self._endpoints[actor] = found
        return found

    def _way(self, here: int, there: int) -> tuple[tuple[SharedLink, ...], float]:
        """The shared links from a site to a site, and the latency."""
        network = self._network
        if here == there:
            way: tuple[tuple[SharedLink, ...], float] = ((), network.site_delay(here, there))
        else:
            shared = (
                (("uplink", here, here), network.sites[here].uplink),
                (("pair", here, there), network.capacity[here][there]),
                (("downlink", there, there), network.sites[there].downlink),
            )
            for name, capacity in shared:
                if capacity < math.inf and name not in self._shared_links:
                    self._shared_links[name] = self._link(capacity)
            links = tuple(self._shared_links[name] for name, _ in shared if name in self._shared_links)
            way = (links, network.site_delay(here, there))
        self._ways[here, there] = way
        return way

    def _link(self, capacity: float) -> SharedLink:
        self._capacity.append(capacity)
        return SharedLink(len(self._capacity) - 1, capacity)
