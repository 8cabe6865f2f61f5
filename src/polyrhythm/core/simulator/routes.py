"""The links that a message takes from one actor to another."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from polyrhythm.core.simulator.connection import Alone, Connection, Endpoint, SharedLink, alone_on
from polyrhythm.hardware.network import Network
from polyrhythm.hardware.timetable import LinkKey

Way = tuple[tuple[SharedLink, ...], float, float]
"""The shared links from a site to a site, the latency, and that there and back."""


class _Endpoints(dict[str, Endpoint]):
    """The places of actors, each of which is made when it is first looked up."""

    def __init__(self, place: Callable[[str], Endpoint]) -> None:
        self._place = place

    def __missing__(self, actor: str) -> Endpoint:
        self[actor] = made = self._place(actor)
        return made


class Routes:
    """The links of `network` among `workers` workers and any servers; they are made when first used.

    `places` is the length of the longest route.
    """

    def __init__(
        self,
        network: Network,
        workers: int,
        link: type[SharedLink] = SharedLink,
        connection: type[Connection] = Connection,
        alone: Alone = alone_on,
    ) -> None:
        self.alone = alone
        self._new_link, self._new_connection = link, connection
        self._network = network
        self._workers = workers
        self._endpoints = _Endpoints(self._place)
        self._links: dict[LinkKey, SharedLink] = {}
        self._changed: dict[LinkKey, float] = {}
        self._ways: dict[tuple[int, int], Way] = {}
        self._capacity: list[float] = [math.inf]  # by link index; link 0 pads short routes
        self._capacities: NDArray[np.float64] = np.array(self._capacity)
        self.places = (2 if len(network.sites) == 1 else 5) + (2 if network.shares_media else 0)

    def capacities(self) -> NDArray[np.float64]:
        """Bytes per second by link index; not to be written to."""
        if len(self._capacities) < len(self._capacity):
            self._capacities = np.array(self._capacity)
        return self._capacities

    def connect(self, sender: str, receiver: str) -> Connection:
        """A new connection; it has no links where both actors are on one host."""
        here, there = self._endpoints[sender], self._endpoints[receiver]
        if here.host == there.host:
            local = self._network.local
            return self._new_connection(here, there, (), local.bandwidth, local.latency, 2 * local.latency)
        shared, latency, round_trip = self._ways.get((here.site, there.site)) or self._way(here.site, there.site)
        links = (here.egress, *shared, there.ingress)
        return self._new_connection(here, there, links, self.alone(links), latency, round_trip)

    def latency(self, sender: str, receiver: str) -> float:
        """The seconds that a byte takes from one actor to another."""
        here, there = self.endpoint(sender), self.endpoint(receiver)
        return self._network.local.latency if here.host == there.host else self._network.site_delay(here.site, there.site)

    def endpoint(self, actor: str) -> Endpoint:
        """The place of `actor` in the network, made when it is first needed."""
        return self._endpoints[actor]

    def crosses(self, sender: str, receiver: str) -> bool:
        """True if two actors are at different sites."""
        return self._endpoints[sender].site != self._endpoints[receiver].site

    def _place(self, actor: str) -> Endpoint:
        network, workers = self._network, self._workers
        host = network.host_of(actor, workers)
        access, site = network.access(host, workers), network.site_of(host, workers)
        links = (self._link(LinkKey("egress", host, host), access.egress), self._link(LinkKey("ingress", host, host), access.ingress))
        return Endpoint(actor, host, site, network.sites[site].name, links)

    def _way(self, here: int, there: int) -> Way:
        network = self._network
        up = (LinkKey("medium", here, here), network.sites[here].medium)
        down = (LinkKey("medium", there, there), network.sites[there].medium)
        between: tuple[tuple[LinkKey, float], ...] = ()
        if here != there:
            between = (
                (LinkKey("uplink", here, here), network.sites[here].uplink),
                (LinkKey("pair", here, there), network.capacity[here][there]),
                (LinkKey("downlink", there, there), network.sites[there].downlink),
            )
        links = tuple(self._link(key, capacity) for key, capacity in (up, *between, down) if capacity < math.inf)
        latency = network.site_delay(here, there)
        way = (links, latency, latency + network.site_delay(there, here))
        self._ways[here, there] = way
        return way

    def change(self, key: LinkKey, capacity: float) -> SharedLink | None:
        """Give a link another `capacity`; None if nothing has come to it yet."""
        self._changed[key] = capacity
        link = self._links.get(key)
        if link is not None:
            link.capacity = self._capacity[link.index] = capacity
            self._capacities = np.array(self._capacity)
        return link

    def _link(self, key: LinkKey, capacity: float) -> SharedLink:
        """The link, made when it is first used, with the last capacity that it was given."""
        if key not in self._links:
            self._capacity.append(self._changed.get(key, capacity))
            self._links[key] = self._new_link(len(self._capacity) - 1, self._capacity[-1])
        return self._links[key]
