"""The ways to run a job on hosts: sets of them, with its workers divided among them, and what is forecast of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from polyrhythm.cluster import Cluster, ClusterHost, ClusterJob
from polyrhythm.cluster.hosts import room
from polyrhythm.tools.scheduling.predictions import Forecaster
from polyrhythm.tools.scheduling.timetable import Option, Room

WHOLE = 1000


def host_sets(job: ClusterJob, hosts: Sequence[ClusterHost]) -> Iterator[tuple[tuple[str, int], ...]]:
    """The sets of hosts that can have all of the job's workers, or, if it is malleable, as many as fit but not fewer than its least."""
    rooms = {host.name: room(host, host.free(), job.demand) for host in hosts}
    names = [name for name, count in rooms.items() if count]
    for size in range(1, min(len(names), job.workers) + 1):
        for chosen in combinations(names, size):
            counts = dict.fromkeys(chosen, 0)
            while sum(counts.values()) < job.workers and any(counts[name] < rooms[name] for name in chosen):
                for name in chosen:
                    if counts[name] < rooms[name] and sum(counts.values()) < job.workers:
                        counts[name] += 1
            if sum(counts.values()) >= job.least and all(counts.values()):
                yield tuple(counts.items())


def options(job: ClusterJob, hosts: Sequence[ClusterHost], forecaster: Forecaster) -> list[Option]:
    """The options of a job, without those for which nothing can be forecast."""
    found = []
    for chosen in host_sets(job, hosts):
        forecast = forecaster.forecast(job.name, [name for name, count in chosen for _ in range(count)])
        if forecast is not None:
            found.append(Option(job.name, chosen, forecast.seconds))
    return found


def shares(jobs: Iterable[ClusterJob], cluster: Cluster) -> Room:
    """The part of each host that a worker of each job takes, in thousandths: of what is scarcest for it."""
    found = {}
    for job in jobs:
        for host in cluster.hosts:
            count = room(host, host.free(), job.demand)
            found[job.name, host.name] = WHOLE // count if count else WHOLE + 1
    return Room(found)
