"""The plan of a list of jobs: which runs on which hosts, with which system and how many workers, when, and without each of the hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from polyrhythm.cluster import Backfill, Cluster, FirstIn, NoPreemption, SchedulerConfig
from polyrhythm.tools.scheduling.follow import FollowTimetable
from polyrhythm.tools.scheduling.options import options, shares
from polyrhythm.tools.scheduling.predictions import Forecaster
from polyrhythm.tools.scheduling.timetable import Entry, Option, timetable
from polyrhythm.tools.scheduling.training_jobs import TrainingJob

_HOUR = 3600.0


class PlannedJob(msgspec.Struct, frozen=True):
    """One job of the plan: its workers by host, its system, when it starts and ends, in seconds, and what its hosts cost meanwhile."""

    name: str
    hosts: dict[str, int]
    system: str
    starts: float
    ends: float
    cost: float


class WithoutHost(msgspec.Struct, frozen=True):
    """The plan if a host is not there from the beginning: the mean completion time, and the jobs that cannot run."""

    host: str
    mean: float
    impossible: list[str]


class ClusterPlan(msgspec.Struct, frozen=True):
    """The plan of all jobs; `is_optimal` where it is known that none is better by the forecasts. Jobs that cannot run are `impossible`."""

    site: str
    jobs: list[PlannedJob]
    impossible: list[str]
    mean: float
    is_optimal: bool
    without: list[WithoutHost]


def ways(cluster: Cluster, jobs: Sequence[TrainingJob], forecaster: Forecaster) -> tuple[dict[str, list[Option]], dict[Option, str]]:
    """The options of each job, and the system of each option."""
    found = {each.job.name: options(each.job, cluster.hosts, forecaster) for each in jobs}
    systems: dict[Option, str] = {}
    for option in (option for those in found.values() for option in those):
        forecast = forecaster.forecast(option.job, [name for name, count in option.hosts for _ in range(count)])
        if forecast is not None:
            systems[option] = forecast.system
    return found, systems


def make_plan(cluster: Cluster, jobs: Sequence[TrainingJob], forecaster: Forecaster) -> ClusterPlan:
    """The plan by the forecasts of `forecaster`."""
    found, systems = ways(cluster, jobs, forecaster)
    room = shares([each.job for each in jobs], cluster)
    best = timetable(found, room)
    without = []
    for host in cluster.hosts if len(cluster.hosts) > 1 else ():
        left = {job: [option for option in those if all(name != host.name for name, _ in option.hosts)] for job, those in found.items()}
        without.append(WithoutHost(host.name, timetable(left, room).mean, _missing(left)))
    planned = [_planned(entry, systems, cluster) for entry in best.entries]
    return ClusterPlan(cluster.name, planned, _missing(found), best.mean, best.is_optimal, without)


def predicted(cluster: Cluster, jobs: Sequence[TrainingJob], forecaster: Forecaster) -> SchedulerConfig:
    """The policy that follows such plans, and makes them anew where something has changed."""
    found, systems = ways(cluster, jobs, forecaster)
    follow = FollowTimetable(found, systems, shares([each.job for each in jobs], cluster))
    return SchedulerConfig(FirstIn(), follow, Backfill(reservations=0), NoPreemption())


def _missing(found: Mapping[str, Sequence[Option]]) -> list[str]:
    return [job for job, those in found.items() if not those]


def _planned(entry: Entry, systems: Mapping[Option, str], cluster: Cluster) -> PlannedJob:
    option = entry.option
    cost = sum(cluster.host(name).price_per_hour for name, _ in option.hosts) * option.seconds / _HOUR
    return PlannedJob(option.job, dict(option.hosts), systems[option], entry.starts, entry.ends, cost)
