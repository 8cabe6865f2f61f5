"""The policy `predicted`: jobs start when and where the timetable says that has the least mean completion time by what is forecast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from polyrhythm.cluster import ClusterState, FirstDevices, JobPlacement, JobRecord, Transaction, WorkerSlot
from polyrhythm.tools.scheduling.timetable import NODES, Entry, Option, Room, timetable

_LATE = 0.1
"""A job that should have ended is expected to take this part of its seconds more."""


@dataclass(frozen=True, slots=True)
class FollowTimetable:
    """Follows the timetable of all jobs that wait, which is made anew in each decision, from what runs and which hosts are well.

    `options` are the ways to run each job, `systems` the system of each, and `share` the part of a host that its workers take.
    """

    options: Mapping[str, Sequence[Option]]
    systems: Mapping[Option, str]
    room: Room
    nodes: int = NODES // 10

    def prepare(self, state: ClusterState, now: float) -> TimetablePlacer:
        """The placer of this decision."""
        waiting = [job.name for job in state.waiting]
        well = {job: [each for each in self.options.get(job, ()) if all(_open(state, host) for host, _ in each.hosts)] for job in waiting}
        taken = [
            (slot.host, self.room.share[name, slot.host], self._left(state.jobs[name], placement, now))
            for name, placement in state.running.items()
            for slot in placement.slots
        ]
        found = timetable(well, Room(self.room.share, tuple(taken)), self.nodes)
        return TimetablePlacer({entry.option.job: entry for entry in found.entries}, self.systems)

    def _left(self, record: JobRecord, placement: JobPlacement, now: float) -> float:
        """The seconds that a running job is expected to take yet."""
        seconds = placement.seconds or record.job.estimate or 1.0
        return max(seconds - (now - record.started), _LATE * seconds)


class TimetablePlacer:
    """Places the jobs that start now, each where its entry says."""

    def __init__(self, entries: Mapping[str, Entry], systems: Mapping[Option, str]) -> None:
        self._entries = entries
        self._systems = systems

    def place(self, record: JobRecord, trial: Transaction) -> JobPlacement | None:
        """The slots of the job's entry, if it starts now and they are free."""
        entry = self._entries.get(record.job.name)
        if entry is None or entry.starts > 0:
            return None
        slots: list[WorkerSlot] = []
        for name, count in entry.option.hosts:
            place = trial.cluster.index[name]
            if trial.rooms(record.job.demand)(place) < count:
                return None
            for devices in FirstDevices().pick(trial.cluster.hosts[place], trial.open(place), record.job.demand, count):
                slots.append(WorkerSlot(name, devices))
        quality = trial.cluster.quality([(slot.host, slot.devices) for slot in slots])
        system, seconds = self._systems.get(entry.option), entry.option.seconds
        return JobPlacement(record.job.name, tuple(slots), quality, system, seconds)

    def grow(self, record: JobRecord, held: JobPlacement, trial: Transaction) -> JobPlacement | None:
        """Jobs keep what the timetable gave them."""
        return None


def _open(state: ClusterState, host: str) -> bool:
    return state.healthy(host) and (host, None) not in state.suspected
