"""Topology: the host whose free devices have the fastest ring, and of these the fullest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polyrhythm.cluster.devices.ring_devices import RingDevices
from polyrhythm.cluster.hosts import Capacity, ClusterHost
from polyrhythm.cluster.jobs import WorkerDemand
from polyrhythm.cluster.nodes.bin_pack import BinPack
from polyrhythm.cluster.rings import ring_bandwidth
from polyrhythm.cluster.state import ClusterState
from polyrhythm.core.settings import checked


@dataclass(frozen=True, slots=True)
@checked
class FastestRing:
    """The highest bandwidth of the ring over the devices that the workers would get, then bin-packing."""

    def prepare(self, state: ClusterState) -> FastestRing:
        """Itself: it needs nothing of the state."""
        return self

    def __call__(self, host: ClusterHost, free: Capacity, demand: WorkerDemand, workers: int) -> tuple[float, ...]:
        """The bandwidth with a minus, and the score of bin-packing."""
        packed = BinPack()(host, free, demand, workers)
        if host.topology is None or not demand.devices:
            return (0.0, *packed)
        chosen = 0
        for devices in RingDevices().pick(host, free, demand, workers):
            chosen |= sum(1 << device for device in devices)
        return (-ring_bandwidth(host.topology, chosen), *packed)

    def levels(self, levels: Sequence[str]) -> Sequence[str]:
        """From the smallest domain upwards."""
        return levels

    def portion(self, room: int, left: int) -> int:
        """As many as fit."""
        return min(room, left)
