"""The SITE file: one description, in TOML or JSON, of hosts, network and queues, for the scheduler and for the simulation of training.

    name = "home"
    reach = "ssh {host}"            # how a line for its shell comes to a host; without, hosts are parts of this machine
    [network]                       # as a network file has it, or the name of a preset: network = "wifi"
    name = "flat"
    sites = [{name = "flat", egress = "200 Mbit/s", latency = "2 ms"}]
    [[hosts]]
    name = "laptop"
    count = 3                       # laptop-1, laptop-2, laptop-3
    site = "flat"
    cores = 8
    memory = "16 GB"
    machine = "laptop"              # of `polyrhythm devices`, or a file of `polyrhythm calibrate`
    [[hosts]]
    name = "box"
    cores = 32
    devices = [{model = "rtx-3090", memory = "24 GB", count = 4}]
    topology = {groups = [2, 2], within = "50 GB/s", between = "10 GB/s"}
    labels = {rack = "left"}
    price_per_hour = 1.2
    [[levels]]
    name = "rack"
    bandwidth = "10 Gbit/s"
    [[queues]]
    name = "default"
    devices = {deserved = 2, limit = 4}

A JOBS file has a list of `jobs`, each with a name and the fields of `ClusterJob` and `WorkerDemand`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from polyrhythm.cluster.cluster import OFFICE, Cluster, DomainLevel
from polyrhythm.cluster.device_topology import DeviceTopology
from polyrhythm.cluster.hosts import ClusterDevice, ClusterHost
from polyrhythm.cluster.jobs import ClusterJob, WorkerDemand
from polyrhythm.cluster.queues import Queue, Quota
from polyrhythm.core import units
from polyrhythm.core.typed_files import read_typed
from polyrhythm.errors import CompositionError, PolyrhythmError
from polyrhythm.hardware import network
from polyrhythm.hardware.description import NetworkDescription, Quantity
from polyrhythm.hardware.network import Network

Written = TypeVar("Written", bound=msgspec.Struct)


class DeviceGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Equal devices of a host."""

    model: str = "gpu"
    memory: Quantity = 0
    count: int = 1
    numa: int = 0


class TopologyGroups(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Groups of devices, with one bandwidth inside of a group and another between groups."""

    groups: list[int]
    within: Quantity
    between: Quantity


class HostGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A host, or `count` equal ones. `topology` is "cube-mesh", groups, or a matrix of bandwidths."""

    name: str
    cores: float
    count: int = 1
    memory: Quantity = 0
    devices: list[DeviceGroup] = []
    topology: str | TopologyGroups | list[list[Quantity]] | None = None
    site: str = ""
    labels: dict[str, str] = {}
    machine: str = "cpu-core"
    price_per_hour: float = 0.0


class LevelEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A level of domains."""

    name: str
    bandwidth: Quantity = float("inf")


class QuotaEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A quota."""

    deserved: int = 0
    limit: int | None = None
    weight: int = 1

    def quota(self) -> Quota:
        """It as a value."""
        return Quota(self.deserved, self.limit, self.weight)


class QueueEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A queue."""

    name: str
    parent: str | None = None
    devices: QuotaEntry = QuotaEntry()
    cores: QuotaEntry = QuotaEntry()


class SiteDescription(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole SITE file, as written."""

    name: str
    hosts: list[HostGroup]
    network: str | NetworkDescription | None = None
    reach: str | None = None
    levels: list[LevelEntry] = []
    queues: tuple[QueueEntry, ...] = (QueueEntry("default"),)


class JobEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A job of a JOBS file; `train` is for whoever carries it out."""

    name: str
    workers: int = 1
    min_workers: int | None = None
    queue: str = "default"
    priority: int = 0
    preemptible: bool = True
    estimate: Quantity | None = None
    level: str | None = None
    mode: str = "preferred"
    step_compute: Quantity = 1.0
    step_bytes: Quantity = 0.0
    devices: int = 0
    milli: int = 1000
    device_memory: Quantity = 0
    models: list[str] = []
    cores: float = 1.0
    memory: Quantity = 0
    train: dict[str, object] = {}

    def job(self) -> ClusterJob:
        """It as a value."""
        memory, device_memory = (round(units.size(each)) for each in (self.memory, self.device_memory))
        return ClusterJob(
            self.name,
            WorkerDemand(self.devices, self.milli, device_memory, tuple(self.models), self.cores, memory),
            self.workers,
            self.min_workers,
            self.queue,
            self.priority,
            self.preemptible,
            None if self.estimate is None else units.duration(self.estimate),
            self.level,
            self.mode,
            units.duration(self.step_compute),
            units.size(self.step_bytes),
        )


class JobList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole JOBS file, as written."""

    jobs: list[JobEntry]


def load_site(path: str | Path) -> Cluster:
    """The cluster that a SITE file describes. Raises `CompositionError` with the place of a mistake."""
    written = _site(path)
    return Cluster(
        written.name,
        tuple(host for group in written.hosts for host in _hosts(group, Path(path))),
        tuple(DomainLevel(level.name, units.bandwidth(level.bandwidth)) for level in written.levels),
        tuple(Queue(queue.name, queue.parent, queue.devices.quota(), queue.cores.quota()) for queue in written.queues),
        _network(written.network, Path(path)),
    )


def reach_written(path: str | Path) -> str | None:
    """The command by which the hosts of a SITE file are reached, for whoever starts something there; None where it has none."""
    return _site(path).reach


def load_jobs(path: str | Path) -> tuple[ClusterJob, ...]:
    """The jobs of a JOBS file, in its order. Raises `CompositionError` with the place of a mistake."""
    return tuple(job for job, _ in jobs_written(path))


def jobs_written(path: str | Path) -> tuple[tuple[ClusterJob, dict[str, object]], ...]:
    """The jobs of a JOBS file, each with its training as it was written."""
    written = read_typed(Path(path), JobList, "JOBS file", "It has jobs, each with a name.")
    return tuple((entry.job(), entry.train) for entry in written.jobs)


def _site(path: str | Path) -> SiteDescription:
    hint = "It has a name and hosts (each with name and cores), and may have network, reach, levels, queues."
    return read_typed(Path(path), SiteDescription, "SITE file", hint)


def _network(given: str | NetworkDescription | None, file: Path) -> Network:
    """The network that is written in the SITE file, a preset, or another file beside it."""
    if given is None:
        return OFFICE
    if isinstance(given, NetworkDescription):
        return Network.described(given)
    return network.load(file.parent / given if (file.parent / given).exists() else given)


def _hosts(group: HostGroup, file: Path) -> list[ClusterHost]:
    """The hosts of a group."""
    if group.count < 1:
        raise CompositionError(f"The hosts {group.name!r} of {str(file)!r} have count={group.count}: give 1 or more.")
    devices = tuple(
        ClusterDevice(each.model, round(units.size(each.memory)), numa=each.numa) for each in group.devices for _ in range(each.count)
    )
    names = [group.name] if group.count == 1 else [f"{group.name}-{number + 1}" for number in range(group.count)]
    try:
        return [
            ClusterHost(
                name,
                group.cores,
                round(units.size(group.memory)),
                devices,
                _topology(group),
                group.site,
                tuple(sorted(group.labels.items())),
                _machine(group.machine, file),
                group.price_per_hour,
            )
            for name in names
        ]
    except PolyrhythmError as problem:
        raise CompositionError(f"The hosts {group.name!r} of {str(file)!r} cannot be used: {problem}") from problem


def _topology(group: HostGroup) -> DeviceTopology | None:
    """The bandwidths between the devices of a host, if they were given."""
    match group.topology:
        case None:
            return None
        case TopologyGroups(groups, within, between):
            return DeviceTopology.groups(groups, units.bandwidth(within), units.bandwidth(between))
        case "cube-mesh":
            return DeviceTopology.cube_mesh()
        case str():
            raise CompositionError(f"No topology is called {group.topology!r}: give 'cube-mesh', groups, or a matrix of bandwidths.")
        case matrix:
            return DeviceTopology(tuple(tuple(units.bandwidth(rate) for rate in row) for row in matrix))


def _machine(given: str, file: Path) -> str:
    """The name of a preset, or the path of a file beside the SITE file."""
    return str(file.parent / given) if (file.parent / given).exists() else given
