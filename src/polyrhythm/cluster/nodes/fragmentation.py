"""Fragmentation gradient descent (Weng et al., 2023, "Beware of Fragmentation"): the host on which the least becomes unusable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from polyrhythm.cluster.devices.first_devices import FirstDevices
from polyrhythm.cluster.hosts import Capacity, ClusterHost, room, usable
from polyrhythm.cluster.jobs import WHOLE, WorkerDemand
from polyrhythm.cluster.nodes.bin_pack import BinPack
from polyrhythm.cluster.state import ClusterState
from polyrhythm.core.settings import checked

_CLASSES = 256
"""How many demands are told apart: rare ones are many together. The first 24 of Alibaba's 151 are four fifths of its pods."""


@dataclass(frozen=True, slots=True)
@checked
class LeastFragmentation:
    """The host on which the expected part of free devices that the next job cannot use grows least.

    `classes` are demands and their shares of all workers; where there are none, the most frequent 256
    of the jobs that run and wait.
    """

    classes: tuple[tuple[WorkerDemand, float], ...] = ()

    def prepare(self, state: ClusterState) -> _Gradient:
        """The gradient for the classes of jobs of `state`, if none were given."""
        return _Gradient(self.classes or observed(record.job.demand for record in state.jobs.values()))

    def levels(self, levels: Sequence[str]) -> Sequence[str]:
        """From the smallest domain upwards."""
        return levels

    def portion(self, room: int, left: int) -> int:
        """As many as fit."""
        return min(room, left)


def observed(demands: Iterable[WorkerDemand]) -> tuple[tuple[WorkerDemand, float], ...]:
    """The most frequent demands, and their shares."""
    counts = Counter(demands).most_common(_CLASSES)
    total = sum(count for _, count in counts)
    return tuple((demand, count / total) for demand, count in counts)


class _Gradient:
    """F(after) - F(before), remembered by what is free."""

    def __init__(self, classes: tuple[tuple[WorkerDemand, float], ...]) -> None:
        self._classes = classes
        self._known: dict[tuple[str, int, Capacity], float] = {}

    def __call__(self, host: ClusterHost, free: Capacity, demand: WorkerDemand, workers: int) -> tuple[float, ...]:
        after = self._unusable(host, _after(host, free, demand, workers))
        return (after - self._unusable(host, free), *BinPack()(host, free, demand, workers))

    def _unusable(self, host: ClusterHost, free: Capacity) -> float:
        """F: the expected thousandths of free devices that a job of a random class cannot use on this host."""
        key = (host.devices[0].model if host.devices else "", len(host.devices), free)
        if key not in self._known:
            self._known[key] = sum(share * _lost(host, free, demand) for demand, share in self._classes)
        return self._known[key]


def _lost(host: ClusterHost, free: Capacity, demand: WorkerDemand) -> float:
    """The thousandths of free devices that one class cannot use."""
    total = sum(free.devices)
    if not total or not room(host, free, demand):
        return total
    if not demand.devices:
        return total  # it takes cores beside devices, and no device
    suited = set(usable(host, demand))
    least = demand.milli if demand.milli < WHOLE else WHOLE
    return sum(part for device, part in enumerate(free.devices) if device not in suited or part < least)


def _after(host: ClusterHost, free: Capacity, demand: WorkerDemand, workers: int) -> Capacity:
    """What is free after the workers, with the first devices that suit them: whole ones of a host are alike."""
    left = free.without(workers * demand.millicores, workers * demand.memory, (), 0)
    for devices in FirstDevices().pick(host, free, demand, workers) if demand.devices else ():
        left = left.without(0, 0, devices, demand.milli)
    return left
