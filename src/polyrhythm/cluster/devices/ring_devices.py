"""The devices with the fastest ring among those that are free."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from polyrhythm.cluster.device_topology import DeviceTopology
from polyrhythm.cluster.devices.first_devices import FirstDevices, dealt
from polyrhythm.cluster.hosts import Capacity, ClusterHost, usable
from polyrhythm.cluster.jobs import WHOLE, WorkerDemand
from polyrhythm.cluster.rings import pick_ring, ring_order
from polyrhythm.core.settings import checked


@dataclass(frozen=True, slots=True)
@checked
class RingDevices:
    """The set with the fastest ring, which leaves the fastest rings to later jobs; ranks follow the ring. Without a topology, the first."""

    def pick(self, host: ClusterHost, free: Capacity, demand: WorkerDemand, workers: int) -> tuple[tuple[int, ...], ...]:
        """The devices of each worker."""
        if host.topology is None or demand.milli < WHOLE or not demand.devices:
            return FirstDevices().pick(host, free, demand, workers)
        mask = sum(1 << device for device in usable(host, demand) if free.devices[device] == WHOLE)
        ring = _ring(host.topology, mask, workers * demand.devices)
        return dealt(list(ring), demand.devices, workers)


@lru_cache(maxsize=1 << 14)
def _ring(topology: DeviceTopology, free: int, count: int) -> tuple[int, ...]:
    chosen = pick_ring(topology, free, count)
    return () if chosen is None else ring_order(topology, chosen)
