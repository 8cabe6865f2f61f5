"""Placement: the assignment of hosts to sites, and of servers to hosts.

Hosts are numbered: worker w has host w; the numbers after the workers' hosts are those of servers.
"""

from __future__ import annotations

import msgspec


class Blocks(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Neighbouring workers share a site: worker w of W is at site `w * sites // W`; sizes differ by at most one."""

    def site_of(self, worker: int, workers: int, sites: int) -> int:
        """The site of `worker`."""
        return worker * sites // workers


class RoundRobin(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Neighbouring workers are at different sites: worker w at site `w % sites`."""

    def site_of(self, worker: int, workers: int, sites: int) -> int:
        """The site of `worker`."""
        return worker % sites


class GivenSites(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Worker w is at the site of the number `sites[w]`, as where a scheduler has chosen its host; beyond the list, it begins again."""

    sites: tuple[int, ...]

    def site_of(self, worker: int, workers: int, sites: int) -> int:
        """The site of `worker`."""
        return self.sites[worker % len(self.sites)]


class OwnHosts(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Every server shard has its own host, at the site of worker `shard % workers`."""

    def host_of(self, shard: int, workers: int) -> int:
        """The host of the server of `shard`."""
        return workers + shard

    def host_beside(self, worker: int, shard: int, workers: int) -> int:
        """A separate host for the shard, at the site of `worker`."""
        return workers * (shard + 1) + worker


class WithWorkers(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Server shard k runs on the host of worker `k % workers`; messages between the two take only the `Local` time."""

    def host_of(self, shard: int, workers: int) -> int:
        """The host of the server of `shard`."""
        return shard % workers

    def host_beside(self, worker: int, shard: int, workers: int) -> int:
        """The host of `worker`."""
        return worker


class Local(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Messages inside one host: they use no link and share no bandwidth.

    By default 10 µs and 6.4 GB/s, what ZeroMQ over a local socket gave for pieces of 4 MB on a two-core machine.
    `latency` is in seconds, `bandwidth` in bytes per second.
    """

    latency: float = 10e-6
    bandwidth: float = 6.4e9


Deal = Blocks | RoundRobin | GivenSites
Placement = OwnHosts | WithWorkers
