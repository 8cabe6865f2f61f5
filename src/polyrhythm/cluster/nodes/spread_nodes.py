"""Spreading: workers on as many hosts as possible, the emptiest first, so that the loss of one host costs little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polyrhythm.cluster.hosts import Capacity, ClusterHost
from polyrhythm.cluster.jobs import WorkerDemand
from polyrhythm.cluster.state import ClusterState
from polyrhythm.core.settings import checked


@dataclass(frozen=True, slots=True)
@checked
class SpreadNodes:
    """The host with the most left, and one worker at a time."""

    def prepare(self, state: ClusterState) -> SpreadNodes:
        """Itself: it needs nothing of the state."""
        return self

    def __call__(self, host: ClusterHost, free: Capacity, demand: WorkerDemand, workers: int) -> tuple[float, ...]:
        """Stranded devices, then the most free devices, cores and memory."""
        return (bool(host.devices) and not demand.devices, -sum(free.devices), -free.cores, -free.memory)

    def levels(self, levels: Sequence[str]) -> Sequence[str]:
        """The largest domain at once."""
        return levels[-1:]

    def portion(self, room: int, left: int) -> int:
        """One."""
        return 1
