"""The places of a gang: all of its workers in the smallest domain that has room, or none of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from polyrhythm.cluster.cluster import HOST
from polyrhythm.cluster.devices import RingDevices
from polyrhythm.cluster.nodes import BinPack
from polyrhythm.cluster.placements import JobPlacement, WorkerSlot
from polyrhythm.cluster.protocols import DevicePolicy, NodePolicy, NodeScore
from polyrhythm.cluster.state import ClusterState, JobRecord
from polyrhythm.cluster.transaction import Transaction
from polyrhythm.core.settings import checked


@dataclass(frozen=True, slots=True)
@checked
class GangPlacement:
    """Gangs on a tree of domains: hosts by `nodes`, and on each host devices by `devices`.

    The levels are tried from the job's own upwards; domains by how little room is left in them. A malleable job gets as many workers as
    fit.
    """

    nodes: NodePolicy = BinPack()  # noqa: RUF009 (a frozen value)
    devices: DevicePolicy = RingDevices()  # noqa: RUF009 (a frozen value)

    def prepare(self, state: ClusterState, now: float) -> TreePlacer:
        """The placer for `state`."""
        return TreePlacer(self.nodes, self.nodes.prepare(state), self.devices)


class TreePlacer:
    """Places gangs for one decision; it remembers the scores of hosts that are alike."""

    def __init__(self, nodes: NodePolicy, score: NodeScore, devices: DevicePolicy) -> None:
        self._nodes = nodes
        self._score = score
        self._devices = devices
        self._scores: dict[object, tuple[float, ...]] = {}

    def place(self, record: JobRecord, trial: Transaction) -> JobPlacement | None:
        """The whole gang, with as many workers as fit."""
        job, rooms = record.job, trial.rooms(record.job.demand)
        levels = allowed_levels(record, trial)
        for level in self._nodes.levels(levels):
            counted = [(sum(min(rooms(place), job.workers) for place in hosts), hosts) for _, hosts in trial.cluster.domains(level)]
            fitting = [(room, hosts) for room, hosts in counted if room >= job.workers]
            if fitting:
                return self._placed(record, self._best(level, fitting, record, trial), job.workers, trial)
        most = max((sum(rooms(place) for place in hosts), -number) for number, (_, hosts) in enumerate(trial.cluster.domains(levels[-1])))
        if job.is_malleable and most[0] >= job.least:
            return self._placed(record, trial.cluster.domains(levels[-1])[-most[1]][1], min(most[0], job.workers), trial)
        return None

    def grow(self, record: JobRecord, held: JobPlacement, trial: Transaction) -> JobPlacement | None:
        """The slots that the job has, and more of them in the same domain of its required level."""
        wanted = record.job.workers - len(held.slots)
        domains = trial.cluster.domains(allowed_levels(record, trial)[-1])
        own = {trial.cluster.index[host] for host in held.hosts}
        hosts = next((hosts for _, hosts in domains if own <= set(hosts)), ())
        rooms = trial.rooms(record.job.demand)
        count = min(wanted, sum(rooms(place) for place in hosts))
        if count < 1:
            return None
        more = self._slots(record, hosts, count, trial)
        slots = tuple(sorted((*held.slots, *more), key=lambda slot: trial.cluster.index[slot.host]))
        return replace(held, slots=slots, quality=trial.cluster.quality([(slot.host, slot.devices) for slot in slots]))

    def _best(self, level: str, fitting: Sequence[tuple[int, Sequence[int]]], record: JobRecord, trial: Transaction) -> Sequence[int]:
        """Of hosts that can have the whole gang, the one with the best score; of larger domains, the fullest."""
        if level == HOST:
            workers = record.job.workers
            score = self._scorer(record, trial)
            return min((hosts for _, hosts in fitting), key=lambda hosts: (score(hosts[0], workers), hosts[0]))
        return min(fitting, key=lambda each: (each[0], sum(sum(trial.open(place).devices) for place in each[1]), each[1][0]))[1]

    def _placed(self, record: JobRecord, hosts: Sequence[int], workers: int, trial: Transaction) -> JobPlacement:
        slots = self._slots(record, hosts, workers, trial)
        return JobPlacement(record.job.name, slots, trial.cluster.quality([(slot.host, slot.devices) for slot in slots]))

    def _slots(self, record: JobRecord, hosts: Sequence[int], workers: int, trial: Transaction) -> tuple[WorkerSlot, ...]:
        """Slots for so many workers on these hosts, which have room for them; neighbouring ranks share hosts and domains."""
        shares = self._shares(record, hosts, workers, trial)
        slots = []
        for place in sorted(shares):
            host = trial.cluster.hosts[place]
            for devices in self._devices.pick(host, trial.open(place), record.job.demand, shares[place]):
                slots.append(WorkerSlot(host.name, devices))
        return tuple(slots)

    def _shares(self, record: JobRecord, hosts: Sequence[int], workers: int, trial: Transaction) -> dict[int, int]:
        """How many workers each host gets: hosts that can take more of them at a time come first, then those with the better score."""
        rooms = trial.rooms(record.job.demand)
        left = {place: room for place in hosts if (room := rooms(place))}
        score = self._scorer(record, trial)
        shares: dict[int, int] = {}
        while workers:
            portions = {place: self._nodes.portion(room, workers) for place, room in left.items()}
            largest = max(portions.values())
            # a host that was used already comes after those that were not, so that spreading spreads
            place = min((p for p, n in portions.items() if n == largest), key=lambda p: (shares.get(p, 0), score(p, largest), p))
            shares[place] = shares.get(place, 0) + largest
            workers -= largest
            left[place] -= largest
            if not left[place]:
                del left[place]
        return shares

    def _scorer(self, record: JobRecord, trial: Transaction) -> Callable[[int, int], tuple[float, ...]]:
        demand, shapes, hosts = record.job.demand, trial.cluster.shapes, trial.cluster.hosts

        def score(place: int, workers: int) -> tuple[float, ...]:
            key = (shapes[place], trial.open(place), workers, demand)
            if key not in self._scores:
                self._scores[key] = self._score(hosts[place], trial.open(place), demand, workers)
            return self._scores[key]

        return score


def allowed_levels(record: JobRecord, trial: Transaction) -> Sequence[str]:
    """The levels of domains that the workers may be in together: the required one, or that which is preferred and all larger ones."""
    levels = trial.cluster.from_level(record.job.level)
    return levels[:1] if record.job.level is not None and record.job.mode == "required" else levels
