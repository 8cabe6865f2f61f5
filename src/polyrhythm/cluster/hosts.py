"""The hosts of a cluster, with or without devices, and what is free on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from polyrhythm.cluster.device_topology import DeviceTopology
from polyrhythm.cluster.jobs import WHOLE, WorkerDemand
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class ClusterDevice:
    """One device of a host: its `model`, its `memory` in bytes, and what finds it on the host: UUID, NUMA node and PCI address."""

    model: str = "gpu"
    memory: int = 0
    uuid: str = ""
    numa: int = 0
    pci: str = ""


@dataclass(frozen=True, slots=True)
@checked
class ClusterHost:
    """A host: `cores`, `memory` in bytes, and devices, if any. A host without devices runs jobs that need none.

    `labels` name the domains that the host is in, as (level, name): `(("rack", "r1"),)`; its `site` is one too. `machine` is a device of
    `polyrhythm devices`, or a file, for predictions of speed. `price_per_hour` is in any currency.

    Examples:
        >>> ClusterHost("laptop", cores=8).free().cores
        8000
    """

    name: str
    cores: float
    memory: int = 0
    devices: tuple[ClusterDevice, ...] = ()
    topology: DeviceTopology | None = None
    site: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    machine: str = "cpu-core"
    price_per_hour: float = 0.0

    def __post_init__(self) -> None:
        if not self.name:
            raise CompositionError("A host has no name: give each one.")
        if not self.cores > 0:
            raise CompositionError(f"The host {self.name!r} has cores={self.cores:g}: give more than 0.")
        if self.memory < 0:
            raise CompositionError(f"The host {self.name!r} has a memory of {self.memory} bytes: give 0, where it is not known, or more.")
        if self.topology is not None and len(self.topology.bandwidth) != len(self.devices):
            raise CompositionError(
                f"The host {self.name!r} has {len(self.devices)} devices and a topology of {len(self.topology.bandwidth)}: give as many."
            )

    def free(self) -> Capacity:
        """All that the host has."""
        return Capacity(round(self.cores * WHOLE), self.memory, (WHOLE,) * len(self.devices))


class Capacity(NamedTuple):
    """What is free on a host: thousandths of cores, bytes, and thousandths of each device. Devices are never summed: a worker that needs a
    whole one does not fit on two halves."""

    cores: int
    memory: int
    devices: tuple[int, ...]

    def without(self, cores: int, memory: int, devices: tuple[int, ...], milli: int) -> Capacity:
        """What is left after a worker has taken so much of the `devices`; negative amounts give back."""
        vector = list(self.devices)
        for device in devices:
            vector[device] -= milli
        return Capacity(self.cores - cores, self.memory - memory, tuple(vector))

    @property
    def is_valid(self) -> bool:
        """True if nothing is taken twice."""
        return self.cores >= 0 and self.memory >= 0 and all(0 <= part <= WHOLE for part in self.devices)


def usable(host: ClusterHost, demand: WorkerDemand) -> tuple[int, ...]:
    """The devices of `host` whose model and memory suit `demand`, free or not."""
    return tuple(
        place
        for place, device in enumerate(host.devices)
        if (not demand.models or device.model in demand.models) and device.memory * demand.milli >= demand.device_memory * WHOLE
    )


def room(host: ClusterHost, free: Capacity, demand: WorkerDemand) -> int:
    """The number of workers that fit into what is free on `host`."""
    counts = []
    if demand.millicores:
        counts.append(free.cores // demand.millicores)
    if demand.memory:
        counts.append(free.memory // demand.memory)
    if demand.devices:
        parts = [free.devices[device] for device in usable(host, demand)]
        whole = sum(part == WHOLE for part in parts) // demand.devices
        counts.append(whole if demand.milli == WHOLE else sum(part // demand.milli for part in parts))
    return max(0, min(counts))
