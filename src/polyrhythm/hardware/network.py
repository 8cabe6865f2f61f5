"""A network as a value: hosts in sites, the bandwidth of each, and the latency between them.

`simulator.flows` shares these links among messages in time. A network is for any number of hosts. Messages arrive; for losses there is the
fault `Drop`. Datagrams, which nobody sends again, are lost with the probability `loss` between hosts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from polyrhythm.core import units
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError, unknown
from polyrhythm.hardware.changes import ChangeEntry
from polyrhythm.hardware.congestion import Congestion, Fair
from polyrhythm.hardware.description import NetworkDescription, Quantity, SiteEntry, read
from polyrhythm.hardware.files import located
from polyrhythm.hardware.placement import Blocks, Deal, Local, OwnHosts, Placement
from polyrhythm.hardware.presets import PRESETS
from polyrhythm.hardware.site import Access as Access
from polyrhythm.hardware.site import Site as Site

_LEAST_RATE = 1.0
"""Bytes per second: with less, one message takes longer than a virtual clock can tell apart."""
_LONGEST_DELAY = 366 * 86400.0
FILE = "network.json"
"""The name of the network in a directory of `polyrhythm calibrate`."""


@dataclass(frozen=True, slots=True)
@checked
class Network:
    """Sites, and for each ordered pair of them the one-way `latency` in seconds and the shared `capacity` in bytes per second.

    Both matrices are indexed `[from][to]`; their diagonals are not used. `accesses` lists hosts that differ from their site. `deal` assigns
    hosts to sites, `placement` servers to hosts; `congestion` is the congestion control of connections. Server shard k runs at the site of
    the worker `beside[k]`, where that is given. `changes` are bandwidths that change at some time, `loss` is the part of datagrams
    between hosts that do not arrive. `jitter` has the seconds by which the latency of a message between two sites may differ, none where it
    is empty. Raises `CompositionError` for matrices of wrong sizes, bandwidths that are not above zero, latencies below zero and jitters
    above them.
    """

    name: str
    sites: tuple[Site, ...]
    latency: tuple[tuple[float, ...], ...]
    capacity: tuple[tuple[float, ...], ...]
    accesses: tuple[tuple[int, Access], ...] = ()
    deal: Deal = Blocks()  # noqa: RUF009 (a frozen value)
    placement: Placement = OwnHosts()  # noqa: RUF009 (a frozen value)
    local: Local = Local()  # noqa: RUF009 (a frozen value)
    congestion: Congestion = Fair()  # noqa: RUF009 (a frozen value)
    beside: tuple[int | None, ...] = ()
    changes: tuple[ChangeEntry, ...] = ()
    loss: float = 0.0
    jitter: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        if not self.sites:
            raise CompositionError(f"The network {self.name!r} has no site. Give it at least one, with the egress of its hosts.")
        if len({site.name for site in self.sites}) < len(self.sites):
            raise CompositionError(f"The network {self.name!r} has two sites of one name. Name each differently.")
        for matrix in (self.latency, self.capacity, *([self.jitter] if self.jitter else [])):
            if len(matrix) != len(self.sites) or any(len(row) != len(self.sites) for row in matrix):
                raise CompositionError(
                    f"The network {self.name!r} needs matrices of {len(self.sites)} rows and columns, one for each site."
                )
        access = [rate for site in self.sites for rate in (site.egress, site.ingress)]
        access += [rate for _, own in self.accesses for rate in (own.egress, own.ingress)] + [self.local.bandwidth]
        shared = [rate for site in self.sites for rate in (site.uplink, site.downlink, site.medium)] + [
            rate for row in self.capacity for rate in row
        ]
        for rate in access:
            if not _LEAST_RATE <= rate < math.inf:
                raise CompositionError(
                    f"A host of the network {self.name!r} has a bandwidth of {rate} bytes per second, which is not a finite number above "
                    "zero, or is less than one byte per second. Give one byte per second or more."
                )
        for rate in shared:
            if not rate >= _LEAST_RATE:
                raise CompositionError(
                    f"A shared bandwidth of the network {self.name!r} is {rate} bytes per second, which is not above zero, or is less than "
                    "one byte per second. Give one byte per second or more; to interrupt a link use Disconnect."
                )
        _check_hosts(self.name, [host for host, _ in self.accesses])
        if not 0 <= self.loss < 1:
            raise CompositionError(f"The network {self.name!r} loses {self.loss} of its datagrams. Give a part from 0 to less than 1.")
        for delay in [site.latency for site in self.sites] + [delay for row in self.latency for delay in row] + [self.local.latency]:
            if not 0 <= delay <= _LONGEST_DELAY:
                raise CompositionError(
                    f"A latency of the network {self.name!r} is {delay} seconds. It must be zero or more, and finite: at most a year."
                )
        swings = [(site.jitter, site.latency) for site in self.sites]
        swings += [swing for row in zip(self.jitter, self.latency, strict=False) for swing in zip(*row, strict=True)]
        for jitter, delay in swings:
            if not 0 <= jitter <= delay:
                raise CompositionError(
                    f"A jitter of the network {self.name!r} is {jitter} seconds around a latency of {delay}: give 0 to {delay}, "
                    "for no message arrives before it was sent."
                )

    @classmethod
    def uniform(cls, name: str, bandwidth: Quantity, latency: Quantity, ingress: Quantity | None = None) -> Network:
        """Hosts that each send at `bandwidth` and receive at `ingress` (the same if not given), `latency` one way between any two.

        Examples:
            >>> Network.uniform("office", "1 Gbit/s", "1 ms").slowest()
            (0.001, 125000000.0)
        """
        return cls.described(NetworkDescription(name, [SiteEntry(name, bandwidth, ingress, latency)]))

    @classmethod
    def joined(
        cls,
        name: str,
        sites: Sequence[Site],
        latency: Mapping[tuple[str, str], float],
        capacity: Mapping[tuple[str, str], float],
        jitter: Mapping[tuple[str, str], float] | None = None,
    ) -> Network:
        """Sites with one-way `latency` (required), shared `capacity` (else unlimited) and `jitter` (else none) by ordered pair of names."""
        names = [site.name for site in sites]
        swings = {pair: swing for pair, swing in (jitter or {}).items() if swing}
        for a, b in [*latency, *capacity, *swings]:
            for given in (a, b):
                if given not in names:
                    raise unknown("site", given, names)
        missing = [(a, b) for a in names for b in names if a != b and (a, b) not in latency]
        if missing:
            raise CompositionError(
                f"The network {name!r} has no connection from site {missing[0][0]!r} to {missing[0][1]!r}. Give its latency."
            )
        return cls(
            name,
            tuple(sites),
            tuple(tuple(latency.get((a, b), 0.0) if a != b else 0.0 for b in names) for a in names),
            tuple(tuple(capacity.get((a, b), math.inf) if a != b else math.inf for b in names) for a in names),
            jitter=tuple(tuple(swings.get((a, b), 0.0) for b in names) for a in names) if swings else (),
        )

    @classmethod
    def described(cls, written: NetworkDescription) -> Network:
        """The network that `written` describes."""
        sites = [
            Site(
                site.name,
                units.bandwidth(site.egress),
                _rate(site.ingress, site.egress),
                units.duration(site.latency),
                _rate(site.uplink),
                _rate(site.downlink),
                _rate(site.medium),
                units.duration(site.jitter),
                site.meter,
            )
            for site in written.sites
        ]
        latency: dict[tuple[str, str], float] = {}
        capacity: dict[tuple[str, str], float] = {}
        jitter: dict[tuple[str, str], float] = {}
        pairs = [(link.source, link.target) for link in written.links]
        own = set(pairs)
        for here, there in pairs:
            if here == there or pairs.count((here, there)) > 1:
                wrong = "from a site to itself: give the site's own latency" if here == there else "twice: give each direction once"
                raise CompositionError(f"The network {written.name!r} has the link from {here!r} to {there!r} {wrong}.")
        for link in written.links:
            for pair in ((link.source, link.target), (link.target, link.source)):
                if pair == (link.source, link.target) or pair not in own:
                    latency[pair] = units.duration(link.latency)
                    capacity[pair] = _rate(link.bandwidth)
                    jitter[pair] = units.duration(link.jitter)
        accesses = tuple((each.host, Access(units.bandwidth(each.egress), _rate(each.ingress, each.egress))) for each in written.hosts)
        network = cls.joined(written.name, sites, latency, capacity, jitter)
        return replace(
            network,
            accesses=accesses,
            deal=written.deal,
            placement=written.placement,
            local=written.local,
            congestion=written.congestion,
            changes=tuple(written.changes),
            loss=written.loss,
        )

    def host_of(self, actor: str, workers: int) -> int:
        """The host of "worker/3" or "server/0" in a job of `workers` workers; a worker that replaces another has its host."""
        role, _, number = actor.partition("/")
        if role == "worker" and number.isdecimal():
            return int(number) % workers
        if role == "server" and number.isdecimal():
            shard = int(number)
            near = self.beside[shard] if shard < len(self.beside) else None
            return self.placement.host_of(shard, workers) if near is None else self.placement.host_beside(near, shard, workers)
        raise CompositionError(f"{actor!r} has no host: actors are called worker/N or server/N.")

    def site_of(self, host: int, workers: int) -> int:
        """The index of the site of `host`; a server's own host is where worker `shard % workers` is."""
        worker = host if host < workers else (host - workers) % workers
        return self.deal.site_of(worker, workers, len(self.sites))

    def access(self, host: int, workers: int) -> Access:
        """The bytes per second that `host` may send and receive."""
        for own, access in self.accesses:
            if own == host:
                return access
        site = self.sites[self.site_of(host, workers)]
        return Access(site.egress, site.ingress)

    def delay(self, source: int, target: int, workers: int) -> float:
        """One-way latency in seconds from the host `source` to the host `target`, without traffic."""
        if source == target:
            return self.local.latency
        return self.site_delay(self.site_of(source, workers), self.site_of(target, workers))

    def site_delay(self, here: int, there: int) -> float:
        """One-way latency in seconds from a host of the site `here` to another host of the site `there`."""
        return self.sites[here].latency if here == there else self.latency[here][there]

    def site_jitter(self, here: int, there: int) -> float:
        """By how many seconds the latency of a message from the site `here` to the site `there` may differ."""
        if here == there:
            return self.sites[here].jitter
        return self.jitter[here][there] if self.jitter else 0.0

    @property
    def varies(self) -> bool:
        """True if any latency has a jitter."""
        return bool(self.jitter) or any(site.jitter for site in self.sites)

    @property
    def shares_media(self) -> bool:
        """True if the hosts of some site share a medium."""
        return any(site.medium < math.inf for site in self.sites)

    def slowest(self) -> tuple[float, float]:
        """The longest latency between two hosts, and the least bandwidth of a message that is alone on any path."""
        across = [(a, b) for a in range(len(self.sites)) for b in range(len(self.sites)) if a != b]
        delays = [site.latency for site in self.sites] + [self.latency[a][b] for a, b in across]
        rates = [min(site.egress, site.ingress) for site in self.sites] + [min(own.egress, own.ingress) for _, own in self.accesses]
        rates += [site.medium / 2 for site in self.sites if site.medium < math.inf]
        if across:
            rates += [min(site.uplink, site.downlink) for site in self.sites] + [self.capacity[a][b] for a, b in across]
        return max(delays), min(rates)


def _rate(given: Quantity | None, otherwise: Quantity = math.inf) -> float:
    return units.bandwidth(otherwise if given is None else given)


def load(path_or_name: str | Path) -> Network:
    """The preset of that name, or the network described in that JSON file (the format is in `description.py`).

    A directory stands for its network.json, as `polyrhythm calibrate` writes it.
    """
    text = str(path_or_name)
    if text in PRESETS:
        return Network.described(PRESETS[text])
    path = located(path_or_name, FILE)
    if path is None:
        raise unknown("network", text, PRESETS)
    return Network.described(read(path))


def _check_hosts(network: str, hosts: Sequence[int]) -> None:
    """Raise CompositionError for numbers of hosts that cannot be."""
    for host in hosts:
        if host < 0 or hosts.count(host) > 1:
            reason = "is listed twice: give it once" if host >= 0 else "is no number of a host: they count from 0"
            raise CompositionError(f"The network {network!r} has an access of its own for host {host}, which {reason}.")
