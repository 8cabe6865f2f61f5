"""When hosts fail, and when they return."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from polyrhythm.cluster.cluster import Cluster
from polyrhythm.core import streams
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


class FailureModel(Protocol):
    """A process of failures."""

    def times(self, cluster: Cluster, seed: int) -> Iterator[tuple[float, str, float]]:
        """When a host fails, which one, and when it returns; in the order of failures, without an end or none."""


@dataclass(frozen=True, slots=True)
class NoFailures:
    """No host fails."""

    def times(self, cluster: Cluster, seed: int) -> Iterator[tuple[float, str, float]]:
        """None."""
        return iter(())


@dataclass(frozen=True, slots=True)
@checked
class HostFailures:
    """Some host of the cluster fails every `mean` seconds, exponentially distributed, and returns after `repair` seconds."""

    mean: float
    repair: float = 1800.0

    def __post_init__(self) -> None:
        if not self.mean > 0 or self.repair < 0:
            raise CompositionError(f"{self} cannot be: the mean time between failures is above zero, and a repair takes zero or more.")

    def times(self, cluster: Cluster, seed: int) -> Iterator[tuple[float, str, float]]:
        """Hosts drawn with equal probability; a failure of a host that has not returned yet is none."""
        draws = streams.stream(seed, "cluster", "failures")
        now = 0.0
        back: dict[str, float] = {}
        while True:
            now += float(draws.exponential(self.mean))
            host = cluster.hosts[int(draws.integers(len(cluster.hosts)))].name
            if back.get(host, 0.0) <= now:
                back[host] = now + self.repair
                yield now, host, back[host]
