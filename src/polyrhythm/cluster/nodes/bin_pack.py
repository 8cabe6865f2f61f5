"""Bin-packing: fill hosts that are in use, so that whole ones stay free for large jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polyrhythm.cluster.hosts import Capacity, ClusterHost
from polyrhythm.cluster.jobs import WHOLE, WorkerDemand
from polyrhythm.cluster.state import ClusterState
from polyrhythm.core.settings import checked


@dataclass(frozen=True, slots=True)
@checked
class BinPack:
    """The host with the least left after it; whole idle hosts last, and hosts with devices last for jobs that need none."""

    def prepare(self, state: ClusterState) -> BinPack:
        """Itself: it needs nothing of the state."""
        return self

    def __call__(self, host: ClusterHost, free: Capacity, demand: WorkerDemand, workers: int) -> tuple[float, ...]:
        """Devices that no one can use, idleness, then what is left of devices, of cores and of memory."""
        left_devices = sum(free.devices) - workers * demand.devices * demand.milli
        left_cores = free.cores - workers * demand.millicores
        idle = free.cores == round(host.cores * WHOLE)
        strands = bool(host.devices) and not demand.devices
        breaks = idle and (left_devices > 0 if demand.devices else left_cores > 0)
        return (strands, breaks, left_devices, left_cores, free.memory)

    def levels(self, levels: Sequence[str]) -> Sequence[str]:
        """From the smallest domain upwards."""
        return levels

    def portion(self, room: int, left: int) -> int:
        """As many as fit."""
        return min(room, left)
