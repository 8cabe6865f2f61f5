"""The first devices that are free."""

from __future__ import annotations

from dataclasses import dataclass

from polyrhythm.cluster.hosts import Capacity, ClusterHost, usable
from polyrhythm.cluster.jobs import WHOLE, WorkerDemand
from polyrhythm.core.settings import checked


@dataclass(frozen=True, slots=True)
@checked
class FirstDevices:
    """Whole devices by their numbers; a part of a device goes where the least is left."""

    def pick(self, host: ClusterHost, free: Capacity, demand: WorkerDemand, workers: int) -> tuple[tuple[int, ...], ...]:
        """The devices of each worker."""
        if demand.milli < WHOLE:
            return fractions(host, free, demand, workers)
        whole = [device for device in usable(host, demand) if free.devices[device] == WHOLE]
        return dealt(whole, demand.devices, workers)


def dealt(devices: list[int], each: int, workers: int) -> tuple[tuple[int, ...], ...]:
    """The first devices for the first worker, and so on."""
    return tuple(tuple(sorted(devices[worker * each : (worker + 1) * each])) for worker in range(workers))


def fractions(host: ClusterHost, free: Capacity, demand: WorkerDemand, workers: int) -> tuple[tuple[int, ...], ...]:
    """A part of one device for each worker: of that with the least left that suffices, the first of equals."""
    left = {device: free.devices[device] for device in usable(host, demand)}
    chosen = []
    for _ in range(workers):
        device = min((each for each in left if left[each] >= demand.milli), key=lambda each: (left[each], each))
        left[device] -= demand.milli
        chosen.append((device,))
    return tuple(chosen)
