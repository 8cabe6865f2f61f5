"""The machines of a plan: how fast each worker computes, what it may hold, and the lines between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from polyrhythm.core.kernel.names import worker
from polyrhythm.core.settings import shown
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.simulator.routes import Routes
from polyrhythm.core.units import size
from polyrhythm.errors import CompositionError
from polyrhythm.hardware import network as networks
from polyrhythm.hardware.fleet import fleet
from polyrhythm.tools.layouts.exchange_trial import Link, sites_of

_DRAWS = 16
"""Steps over which the pace of a worker is averaged."""
_OPERATIONS = 1e9

Flow = tuple[int, int, float]
"""Bytes from one worker to another."""


@dataclass(frozen=True)
class Machines:
    """Those of `workers` workers of a simulator, each with `memory` bytes, if they are bounded."""

    on: Simulator
    workers: int
    memory: tuple[float, ...] | None = None

    @staticmethod
    def of(on: Simulator, workers: int, memory: float | str | Sequence[float | str] | None) -> Machines:
        """Those that a user has given; sizes may be written as "2 GB". Raises CompositionError for what cannot be."""
        if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
            raise CompositionError(f"workers={shown(workers)} is no number of workers: give 1 or more.")
        if whole := [each.name for each in fleet(on.devices).machines if each.measured]:
            raise CompositionError(
                f"The machine {whole[0]!r} charges whole steps as they were measured, and a part of a model takes less: give devices by "
                "their speed, such as pr.Device('office', flops=2e10)."
            )
        if memory is None:
            return Machines(on, workers)
        given = [memory] * workers if isinstance(memory, str | int | float) else list(memory)
        if len(given) != workers:
            raise CompositionError(f"memory has {len(given)} sizes for {workers} workers: give one for each, or one for all.")
        return Machines(on, workers, tuple(size(each) for each in given))

    @cached_property
    def sites(self) -> tuple[str, ...]:
        """The site of each worker."""
        return tuple(sites_of(self.on, self.workers).values())

    @cached_property
    def _paces(self) -> tuple[tuple[float, float], ...]:
        """For each worker the seconds of an operation, and those that a step takes besides."""
        found = []
        for rank in range(self.workers):
            timer = fleet(self.on.devices).timer(worker(rank), self.on.seed)
            draws = [(timer.step_seconds(0.0, 1), timer.seconds(_OPERATIONS) / _OPERATIONS) for _ in range(_DRAWS)]
            found.append((sum(each for _, each in draws) / _DRAWS, sum(each for each, _ in draws) / _DRAWS))
        return tuple(found)

    def seconds(self, rank: int, flops: float) -> float:
        """The seconds of so many operations at a worker."""
        return self._paces[rank][0] * flops

    def overhead(self, rank: int) -> float:
        """The seconds of a step at a worker, besides its operations."""
        return self._paces[rank][1]

    @cached_property
    def speeds(self) -> tuple[float, ...]:
        """The speed of each worker, of which the fastest has 1."""
        least = min(each for each, _ in self._paces)
        return tuple(least / each if each else 1.0 for each, _ in self._paces)

    @cached_property
    def alike(self) -> tuple[tuple[str, float, float], ...]:
        """What distinguishes each worker from others: its site, its speed and its line."""
        if (routes := self._routes) is None:
            return tuple(("", each, 0.0) for each in self.speeds)
        lines = [routes.endpoint(worker(rank)).egress.capacity for rank in range(self.workers)]
        return tuple(zip(self.sites, self.speeds, lines, strict=True))

    @cached_property
    def _routes(self) -> Routes | None:
        if isinstance(network := self.on.network, Instant):
            return None
        return Routes(network if isinstance(network, networks.Network) else networks.load(network), self.workers)

    def link(self, source: int, target: int) -> Link:
        """The sites that a message goes between."""
        return self.sites[source], self.sites[target]

    def latency(self, flows: Iterable[Flow]) -> float:
        """The longest latency of the flows."""
        if (routes := self._routes) is None:
            return 0.0
        return max((routes.connect(worker(a), worker(b)).latency for a, b, _ in flows), default=0.0)

    def transfer(self, flows: Iterable[Flow]) -> float:
        """The seconds until all of these flows have left, which begin at once and share the links that they have in common."""
        if (routes := self._routes) is None:
            return 0.0
        loads: dict[int, list[float]] = {}
        alone = 0.0
        for a, b, nbytes in flows:
            connection = routes.connect(worker(a), worker(b))
            for link in connection.links:
                loads.setdefault(link.index, [link.capacity, 0.0])[1] += nbytes
            if not connection.links:
                alone = max(alone, nbytes / connection.alone)
        return max([alone, *(nbytes / capacity for capacity, nbytes in loads.values())])
