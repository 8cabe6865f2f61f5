"""Finds which resources a job that waits is short of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from polyrhythm.cluster.cluster import EVERYWHERE
from polyrhythm.cluster.gang import allowed_levels
from polyrhythm.cluster.hosts import Capacity, ClusterHost, room
from polyrhythm.cluster.jobs import WorkerDemand
from polyrhythm.cluster.reasons import Shortage, TooLarge
from polyrhythm.cluster.state import JobRecord
from polyrhythm.cluster.transaction import Transaction
from polyrhythm.core.units import show_bytes

RESOURCES = ("devices of these models", "device memory", "devices", "cores", "memory")
"""What a worker can lack, and what each of these is called in a reason; who needs no devices needs none of these models either."""


def shortage(record: JobRecord, trial: Transaction) -> Shortage | TooLarge:
    """Why no domain has room for the fewest workers of a job: the smallest set of resources with more of which it would fit."""
    job, cluster = record.job, trial.cluster
    level = allowed_levels(record, trial)[-1]
    empty = [host.free() for host in cluster.hosts]
    if _best(trial, level, empty, job.demand) < job.least:
        lacks = lacking(trial, level, empty, job.demand, job.least)
        return TooLarge(job.least, _best(trial, level, empty, job.demand), lacks, _amounts(job.demand, cluster.hosts, lacks))
    open_now = [trial.open(place) for place in range(len(cluster.hosts))]
    room_now = _best(trial, level, open_now, job.demand)
    return Shortage(
        job.least, "cluster" if level == EVERYWHERE else level, room_now, lacking(trial, level, open_now, job.demand, job.least)
    )


def _amounts(demand: WorkerDemand, hosts: Sequence[ClusterHost], resources: Sequence[str]) -> tuple[str, ...]:
    """For each of the resources, how much a worker needs, and how much the largest host has."""
    devices = [device for host in hosts for device in host.devices]
    models = dict.fromkeys(device.model for device in devices)
    known = {
        "devices of these models": (" or ".join(demand.models), " and ".join(models) or "none"),
        "devices": (str(demand.devices), str(max(len(host.devices) for host in hosts))),
        "device memory": (show_bytes(demand.device_memory), show_bytes(max((device.memory for device in devices), default=0))),
        "cores": (f"{demand.cores:g}", f"{max(host.cores for host in hosts):g}"),
        "memory": (show_bytes(demand.memory), show_bytes(max(host.memory for host in hosts))),
    }
    wanted = {name: known[name] for name in resources if name in known}
    own = {"devices of these models": "the hosts have"}
    return tuple(
        f"each worker needs {needed if len(wanted) == 1 else f'{needed} {name}'}, and {own.get(name, 'the largest host has')} {there}"
        for name, (needed, there) in wanted.items()
    )


def lacking(trial: Transaction, level: str, free: Sequence[Capacity], demand: WorkerDemand, workers: int) -> tuple[str, ...]:
    """The first of the smallest sets of resources without which as many workers would fit into one domain of the level."""
    for size in range(1, len(RESOURCES) + 1):
        for chosen in combinations(RESOURCES, size):
            relaxed = without(demand, chosen)
            if relaxed is None or _best(trial, level, free, relaxed) >= workers:
                return chosen
    return RESOURCES


def without(demand: WorkerDemand, resources: Sequence[str]) -> WorkerDemand | None:
    """The demand of a worker that needs nothing of these; None if nothing is left of it."""
    devices = 0 if "devices" in resources else demand.devices
    cores = 0.0 if "cores" in resources else demand.cores
    if not devices and not cores:
        return None
    return replace(
        demand,
        devices=devices,
        milli=demand.milli if devices else 1000,
        models=() if not devices or "devices of these models" in resources else demand.models,
        device_memory=0 if not devices or "device memory" in resources else demand.device_memory,
        cores=cores,
        memory=0 if "memory" in resources else demand.memory,
    )


def _best(trial: Transaction, level: str, free: Sequence[Capacity], demand: WorkerDemand) -> int:
    """The workers that the roomiest domain has room for."""
    counts: dict[tuple[int, Capacity], int] = {}

    def count(place: int, host: ClusterHost) -> int:
        key = (trial.cluster.shapes[place], free[place])
        if key not in counts:
            counts[key] = room(host, free[place], demand)
        return counts[key]

    rooms = [count(place, host) for place, host in enumerate(trial.cluster.hosts)]
    return max(sum(rooms[place] for place in hosts) for _, hosts in trial.cluster.domains(level))
