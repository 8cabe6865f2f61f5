"""The ways to place a job: how many workers on each kind of host, and what is predicted for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from polyrhythm.cluster.cluster import Cluster
from polyrhythm.cluster.gang import allowed_levels
from polyrhythm.cluster.hosts import Capacity, room
from polyrhythm.cluster.placements import JobPlacement, WorkerSlot
from polyrhythm.cluster.predicted.forecasts import Forecast, Forecaster
from polyrhythm.cluster.protocols import DevicePolicy
from polyrhythm.cluster.state import JobRecord
from polyrhythm.cluster.transaction import Transaction


@dataclass(frozen=True, slots=True)
class WayToPlace:
    """So many workers of a job on hosts of each kind, and the forecast for them. Hosts of one kind are alike, and in the same domains."""

    counts: tuple[int, ...]
    forecast: Forecast

    @property
    def workers(self) -> int:
        """All of them."""
        return sum(self.counts)

    @property
    def work(self) -> float:
        """Worker-seconds that it takes."""
        return self.workers * self.forecast.seconds


class HostKinds:
    """The hosts of a cluster by kind: those of one kind can stand for each other."""

    def __init__(self, cluster: Cluster, devices: DevicePolicy) -> None:
        domains: dict[int, list[str]] = {place: [] for place in range(len(cluster.hosts))}
        for level in cluster.level_names[1:]:
            for name, places in cluster.domains(level):
                if len(places) > 1:
                    for place in places:
                        domains[place].append(name)
        kinds: dict[object, list[int]] = {}
        for place, host in enumerate(cluster.hosts):
            kinds.setdefault((cluster.shapes[place], tuple(domains[place]), host.site, host.price_per_hour), []).append(place)
        self.cluster = cluster
        self.members = tuple(tuple(places) for places in kinds.values())
        self._devices = devices
        self._ways: dict[object, tuple[WayToPlace, ...]] = {}

    def ways(self, record: JobRecord, trial: Transaction, forecaster: Forecaster) -> tuple[WayToPlace, ...]:
        """All ways to place a job on the whole cluster that are not slower than one with no more workers of any kind, the fastest first."""
        key = (record.job, trial.state.lost)
        if key not in self._ways:
            self._ways[key] = self._found(record, trial, forecaster)
        return self._ways[key]

    def _found(self, record: JobRecord, trial: Transaction, forecaster: Forecaster) -> tuple[WayToPlace, ...]:
        job, cluster = record.job, self.cluster
        healthy = [place for place, host in enumerate(cluster.hosts) if trial.state.healthy(host.name)]
        level = allowed_levels(record, trial)[-1]
        found: dict[tuple[int, ...], WayToPlace] = {}
        for _, places in cluster.domains(level):
            most = [
                sum(room(cluster.hosts[place], cluster.hosts[place].free(), job.demand) for place in set(kind) & set(places) & set(healthy))
                for kind in self.members
            ]
            for counts in _compositions(most, job.least, job.workers):
                if counts not in found and (slots := self._alone(record, counts, places)):
                    forecast = forecaster.forecast(job, slots, cluster)
                    if forecast is not None:
                        found[counts] = WayToPlace(counts, forecast)
        return _undominated(sorted(found.values(), key=lambda way: (way.forecast.seconds, way.workers, way.counts)))

    def _alone(self, record: JobRecord, counts: Sequence[int], places: Sequence[int]) -> tuple[WorkerSlot, ...]:
        """The slots on hosts that nobody else uses."""
        free = [host.free() for host in self.cluster.hosts]
        slots: list[WorkerSlot] = []
        for kind, count in zip(self.members, counts, strict=True):
            for place in kind:
                here = min(count, room(self.cluster.hosts[place], free[place], record.job.demand)) if place in places else 0
                if here:
                    slots += self._on(record, place, here, free[place])
                    count -= here
        return tuple(slots)

    def placement(self, record: JobRecord, way: WayToPlace, trial: Transaction) -> JobPlacement | None:
        """The slots of a way among what is free in `trial`, on as few hosts as can be, the fullest first; None where it does not fit.

        All are in one domain of the level that the job requires.
        """
        domains = trial.cluster.domains(allowed_levels(record, trial)[-1])
        found = (self._within(record, way, trial, frozenset(places)) for _, places in domains)
        return next((placement for placement in found if placement is not None), None)

    def _within(self, record: JobRecord, way: WayToPlace, trial: Transaction, places: frozenset[int]) -> JobPlacement | None:
        rooms, slots = trial.rooms(record.job.demand), []
        for kind, count in zip(self.members, way.counts, strict=True):
            if not count:
                continue
            having = sorted((room_here, place) for place in kind if place in places and (room_here := rooms(place)))
            if sum(room_here for room_here, _ in having) < count:
                return None
            exact = next((place for room_here, place in having if room_here >= count), None)
            for room_here, place in [(count, exact)] if exact is not None else having[::-1]:
                here = min(room_here, count)
                if here and place is not None:
                    slots += self._on(record, place, here, trial.open(place))
                    count -= here
        ordered = tuple(sorted(slots, key=lambda slot: self.cluster.index[slot.host]))
        quality = self.cluster.quality([(slot.host, slot.devices) for slot in ordered])
        return JobPlacement(record.job.name, ordered, quality, way.forecast.system, way.forecast.seconds)

    def _on(self, record: JobRecord, place: int, workers: int, free: Capacity) -> list[WorkerSlot]:
        host = self.cluster.hosts[place]
        return [WorkerSlot(host.name, devices) for devices in self._devices.pick(host, free, record.job.demand, workers)]


def _compositions(most: Sequence[int], least: int, workers: int) -> Iterator[tuple[int, ...]]:
    """All numbers of workers by kind, at most `most`, whose sum is from `least` to `workers`."""
    if not most:
        if least <= 0:
            yield ()
        return
    reachable = sum(most[1:])
    for here in range(max(0, least - reachable), min(most[0], workers) + 1):
        for rest in _compositions(most[1:], least - here, workers - here):
            yield (here, *rest)


def _undominated(ways: Sequence[WayToPlace]) -> tuple[WayToPlace, ...]:
    """Without those that are not faster than another with no more workers of any kind; `ways` are sorted by time."""
    kept: list[WayToPlace] = []
    for way in ways:
        if not any(all(a <= b for a, b in zip(other.counts, way.counts, strict=True)) for other in kept):
            kept.append(way)
    return tuple(kept)
