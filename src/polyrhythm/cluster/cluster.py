"""A cluster: hosts in a tree of domains, queues, and the network between hosts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from polyrhythm.cluster.hosts import Capacity, ClusterHost
from polyrhythm.cluster.jobs import WorkerDemand
from polyrhythm.cluster.queues import Queue, check_queues
from polyrhythm.cluster.rings import ring_bandwidth
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError, unknown
from polyrhythm.hardware.network import Network
from polyrhythm.hardware.placement import GivenSites

HOST = "host"
EVERYWHERE = "cluster"
OFFICE = Network.uniform("10G", "10 Gbit/s", "50 us")
"""The network where none is given."""


@dataclass(frozen=True, slots=True)
@checked
class DomainLevel:
    """A level of the tree of domains, such as "rack", and the bytes per second between hosts that share a domain of it, and no smaller."""

    name: str
    bandwidth: float = math.inf

    def __post_init__(self) -> None:
        if self.name in (HOST, EVERYWHERE) or not self.bandwidth > 0:
            raise CompositionError(f"The level {self.name!r} of {self.bandwidth} bytes per second: give another name and more than zero.")


@dataclass(frozen=True, slots=True)
@checked
class Cluster:
    """The hosts that jobs may use, the `levels` of their domains from the smallest to the largest, the queues, and the network of sites.

    Hosts name their domains by labels; one without a label of a level is in a domain of its own. "site" is a level if hosts have sites.
    Between hosts of one domain a message has the bandwidth of the smallest level they share, and no more than the network's.
    Raises `CompositionError` for names that are used twice or are unknown. `rooms` remembers how many workers fit where.

    Examples:
        >>> Cluster("home", tuple(ClusterHost(f"laptop-{number}", cores=8) for number in range(3))).amount("cores")
        24.0
    """

    name: str
    hosts: tuple[ClusterHost, ...]
    levels: tuple[DomainLevel, ...] = ()
    queues: tuple[Queue, ...] = (Queue("default"),)
    network: Network = OFFICE
    index: dict[str, int] = field(init=False, repr=False, compare=False, default_factory=dict)
    shapes: tuple[int, ...] = field(init=False, repr=False, compare=False, default=())
    rooms: dict[WorkerDemand, dict[tuple[int, Capacity], int]] = field(init=False, repr=False, compare=False, default_factory=dict)
    _domains: dict[str, tuple[tuple[str, tuple[int, ...]], ...]] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        if not self.hosts:
            raise CompositionError(f"The cluster {self.name!r} has no host. Give it at least one.")
        if any(host.site for host in self.hosts) and "site" not in [level.name for level in self.levels]:
            object.__setattr__(self, "levels", (*self.levels, DomainLevel("site")))
        check_queues(self.queues)
        names = [host.name for host in self.hosts]
        if len(set(names)) < len(names):
            raise CompositionError(
                f"Two hosts of the cluster {self.name!r} have one name: {sorted(n for n in names if names.count(n) > 1)[0]!r}."
            )
        sites = [site.name for site in self.network.sites]
        for host in self.hosts:
            if host.site and host.site not in sites:
                raise unknown("site", host.site, sites)
        self.index.update({name: place for place, name in enumerate(names)})
        kinds: dict[ClusterHost, int] = {}
        plain = [replace(host, name="any", site="", labels=(), price_per_hour=0.0) for host in self.hosts]
        object.__setattr__(self, "shapes", tuple(kinds.setdefault(host, len(kinds)) for host in plain))
        for level in self.level_names:
            self._domains[level] = self._grouped(level)

    @property
    def level_names(self) -> tuple[str, ...]:
        """From single hosts over the given levels to the whole cluster."""
        return (HOST, *(level.name for level in self.levels), EVERYWHERE)

    def host(self, name: str) -> ClusterHost:
        """The host of that name; raises `UnknownNameError`."""
        if name not in self.index:
            raise unknown("host", name, self.index)
        return self.hosts[self.index[name]]

    def domains(self, level: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The domains of a level: their names, and the numbers of their hosts."""
        if level not in self._domains:
            raise unknown("level", level, self.level_names)
        return self._domains[level]

    def from_level(self, level: str | None) -> tuple[str, ...]:
        """The levels from `level` upwards, all of them if there is none."""
        names = self.level_names
        if level is not None and level not in names:
            raise unknown("level", level, names)
        return names[names.index(level or HOST) :]

    def amount(self, kind: str) -> float:
        """All devices, or all cores."""
        return float(sum(len(host.devices) if kind == "devices" else host.cores for host in self.hosts))

    def bandwidth(self, one: str, other: str) -> float:
        """Bytes per second of a message between two hosts, alone on its way."""
        here, there = self.host(one), self.host(other)
        rate = self._between_sites(here.site, there.site)
        for level in self.levels:
            if _domain(here, level.name) == _domain(there, level.name):
                return min(rate, level.bandwidth)
        return rate

    def quality(self, slots: Sequence[tuple[str, tuple[int, ...]]]) -> float:
        """Bytes per second of the slowest link of a ring over workers with these hosts and devices; infinite for one alone."""
        rates = [math.inf]
        devices: dict[str, int] = {}
        for name, used in slots:
            devices[name] = devices.get(name, 0) | sum(1 << device for device in used)
        for name, chosen in devices.items():
            topology = self.host(name).topology
            if topology is not None and chosen:
                rates.append(ring_bandwidth(topology, chosen))
        names = list(devices)
        if len(names) > 1:
            rates += [self.bandwidth(a, b) for a, b in zip(names, [*names[1:], names[0]], strict=True)]
        return min(rates)

    def network_of(self, hosts: Sequence[str]) -> Network:
        """The network of a job whose worker k is on `hosts[k]`, for a simulation of its training: worker k has the site of that host."""
        sites = [site.name for site in self.network.sites]
        places = [sites.index(self.host(name).site) if self.host(name).site else 0 for name in hosts]
        return replace(self.network, deal=GivenSites(tuple(places)))

    def _between_sites(self, here: str, there: str) -> float:
        names = [site.name for site in self.network.sites]
        a, b = (names.index(name) if name else 0 for name in (here, there))
        source, target = self.network.sites[a], self.network.sites[b]
        if a == b:
            return min(source.egress, source.ingress, source.medium / 2)
        return min(source.egress, source.uplink, self.network.capacity[a][b], target.downlink, target.ingress)

    def _grouped(self, level: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
        groups: dict[str, list[int]] = {}
        for place, host in enumerate(self.hosts):
            groups.setdefault(EVERYWHERE if level == EVERYWHERE else _domain(host, level), []).append(place)
        return tuple((name, tuple(members)) for name, members in groups.items())


def _domain(host: ClusterHost, level: str) -> str:
    """The domain of `host` at a level; its own if it has no label of it."""
    if level == "site" and host.site:
        return host.site
    return next((name for kind, name in host.labels if kind == level), f"{HOST} {host.name}")
