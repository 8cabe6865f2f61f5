"""A trial of changes to a state: what is placed in it is taken at once, and all can be taken back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from polyrhythm.cluster.hosts import Capacity, room
from polyrhythm.cluster.jobs import WorkerDemand
from polyrhythm.cluster.placements import JobPlacement, WorkerSlot
from polyrhythm.cluster.queues import ancestors
from polyrhythm.cluster.state import ClusterState, JobRecord
from polyrhythm.errors import CompositionError

_REMEMBERED = 100_000
"""How many counts of workers that fit are remembered for one demand."""


@dataclass(frozen=True, slots=True)
class Hold:
    """What a reservation keeps free on one host."""

    place: int
    cores: int
    memory: int
    devices: tuple[int, ...]


class Transaction:
    """The changes that one decision tries. A choice and its reservation are one step: nobody else can choose the same device.

    `mark` remembers the present state of the trial, and `rollback` returns to it.
    """

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.cluster = state.cluster
        self.free: list[Capacity] = list(state.free)
        self.placements: dict[str, JobPlacement] = dict(state.running)
        self._closed: dict[int, tuple[bool, ...]] = {}
        for host, device in state.suspected:
            place = state.cluster.index[host]
            count = len(state.cluster.hosts[place].devices)
            before = self._closed.get(place, (False,) * (count + 1))
            self._closed[place] = tuple(shut or device is None or number == device for number, shut in enumerate(before))
        self._undo: list[Callable[[], None]] = []
        self._lines = {
            queue.name: tuple(each.name for each in ancestors(state.cluster.queues, queue.name)) for queue in state.cluster.queues
        }
        self._used: dict[tuple[str, str], float] = {}
        for name, placement in self.placements.items():
            self._count(self.state.jobs[name], len(placement.slots))

    def mark(self) -> int:
        """A moment that `rollback` can return to."""
        return len(self._undo)

    def rollback(self, mark: int) -> None:
        """Take back all changes since `mark`."""
        while len(self._undo) > mark:
            self._undo.pop()()

    def place(self, placement: JobPlacement) -> None:
        """Give a job these slots. Raises `CompositionError` if it has others, if its gang is not whole, or where one is not free."""
        record = self.state.record(placement.job)
        if placement.job in self.placements or not record.job.least <= len(placement.slots) <= record.job.workers:
            raise CompositionError(
                f"{len(placement.slots)} workers of {placement.job!r} were placed, which has {record.job.least} to {record.job.workers} "
                "and must have no place yet: remove it, and place its whole gang."
            )
        mark = self.mark()
        for slot in placement.slots:
            if not self._taken(record, slot.host, slot.devices, 1):
                self.rollback(mark)
                raise CompositionError(f"{placement.job!r} was placed on {slot.host!r}, devices {list(slot.devices)}, which are not free.")
        self.placements[placement.job] = placement
        self._count(record, len(placement.slots))

        def undo() -> None:
            del self.placements[placement.job]
            self._count(record, -len(placement.slots))

        self._undo.append(undo)

    def fits(self, placement: JobPlacement) -> bool:
        """True if all slots of `placement` are free, and its job has none."""
        record, mark = self.state.record(placement.job), self.mark()
        free = all(self._taken(record, slot.host, slot.devices, 1) for slot in placement.slots)
        self.rollback(mark)
        return free and placement.job not in self.placements

    def remove(self, name: str) -> JobPlacement:
        """Take the slots of a job from it, and say which they were."""
        record, placement = self.state.record(name), self.placements[name]
        for slot in placement.slots:
            if (slot.host, None) not in self.state.lost:
                alive = tuple(device for device in slot.devices if (slot.host, device) not in self.state.lost)
                self._taken(record, slot.host, alive, -1)
        del self.placements[name]
        self._count(record, -len(placement.slots))

        def undo() -> None:
            self.placements[name] = placement
            self._count(record, len(placement.slots))

        self._undo.append(undo)
        return placement

    def rated(self, placement: JobPlacement, slots: tuple[WorkerSlot, ...]) -> JobPlacement:
        """The same placement with other slots, and their quality."""
        return replace(placement, slots=slots, quality=self.cluster.quality([(slot.host, slot.devices) for slot in slots]))

    def hold(self, placement: JobPlacement, demand: WorkerDemand) -> tuple[Hold, ...]:
        """Keep free what is free of a later placement's slots, and say what that is: `release` gives it back."""
        held = []
        for slot in placement.slots:
            place = self.cluster.index[slot.host]
            left = self.free[place]
            parts = tuple(min(left.devices[d], demand.milli) if d in slot.devices else 0 for d in range(len(left.devices)))
            held.append(Hold(place, min(left.cores, demand.millicores), min(left.memory, demand.memory), parts))
            self._shift(held[-1], -1)
        return tuple(held)

    def release(self, held: Iterable[Hold]) -> None:
        """Give back what a reservation kept free."""
        for each in held:
            self._shift(each, 1)

    def open(self, place: int) -> Capacity:
        """What new workers may take on the host of a number: what is free, and not suspected."""
        free = self.free[place]
        if place not in self._closed:
            return free
        *devices, host = self._closed[place]
        if host:
            return Capacity(0, 0, (0,) * len(free.devices))
        return free._replace(devices=tuple(0 if shut else part for part, shut in zip(free.devices, devices, strict=True)))

    def rooms(self, demand: WorkerDemand) -> Callable[[int], int]:
        """How many workers with that demand fit on the host of a number, now."""
        known = self.cluster.rooms.setdefault(demand, {})
        if len(known) > _REMEMBERED:
            known.clear()
        shapes, hosts = self.cluster.shapes, self.cluster.hosts

        def count(place: int) -> int:
            key = (shapes[place], self.open(place))
            if key not in known:
                known[key] = room(hosts[place], key[1], demand)
            return known[key]

        return count

    def used(self, queue: str, kind: str) -> float:
        """The devices, or cores, that the jobs of a queue and of those below it have."""
        return self._used.get((queue, kind), 0.0)

    def line(self, queue: str) -> tuple[str, ...]:
        """A queue and those above it."""
        return self._lines[queue]

    def _taken(self, record: JobRecord, host: str, devices: tuple[int, ...], sign: int) -> bool:
        """Take a worker's share of a host, or give it back; False if it is not there."""
        demand = record.job.demand
        place = self.cluster.index[host]
        before = self.free[place]
        if sign > 0 and (not self.state.healthy(host, devices) or len(set(devices)) != demand.devices):
            return False
        after = before.without(sign * demand.millicores, sign * demand.memory, devices, sign * demand.milli)
        if not after.is_valid:
            return False
        self._set(place, after)
        return True

    def _shift(self, held: Hold, sign: int) -> None:
        before = self.free[held.place]
        devices = tuple(part + sign * kept for part, kept in zip(before.devices, held.devices, strict=True))
        self._set(held.place, Capacity(before.cores + sign * held.cores, before.memory + sign * held.memory, devices))

    def _set(self, place: int, after: Capacity) -> None:
        before = self.free[place]
        self.free[place] = after
        self._undo.append(lambda: self.free.__setitem__(place, before))

    def _count(self, record: JobRecord, workers: int) -> None:
        demand = record.job.demand
        kind, amount = demand.kind, workers * demand.amount
        for queue in self._lines[record.job.queue]:
            self._used[queue, kind] = self._used.get((queue, kind), 0.0) + amount
