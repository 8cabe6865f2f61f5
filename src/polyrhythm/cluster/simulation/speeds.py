"""How fast a job runs on its placement, as a part of its speed with all workers and without communication."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from polyrhythm.cluster.cluster import Cluster
from polyrhythm.cluster.jobs import ClusterJob
from polyrhythm.cluster.placements import JobPlacement
from polyrhythm.core.settings import checked


class SpeedModel(Protocol):
    """The speed of a placement."""

    def speed(self, job: ClusterJob, placement: JobPlacement, cluster: Cluster) -> float:
        """Seconds of the trace that pass in one second."""


@dataclass(frozen=True, slots=True)
@checked
class PlacementSpeed:
    """One over the seconds of a step: its computation, divided among the workers, and the bytes of a ring over its slowest link.

    With w of W workers and a slowest link of R bytes per second: 1 / (compute W / w + 2 (w - 1) / w bytes / R), in parts of 1 / compute.
    """

    def speed(self, job: ClusterJob, placement: JobPlacement, cluster: Cluster) -> float:
        """Seconds of the trace that pass in one second; 1 with all workers and nothing to exchange."""
        return job.step_compute / job.step_seconds(len(placement.slots), placement.quality)


Steps = Mapping[tuple[int, ...], float]
"""The seconds of a step by the sorted numbers of workers on each host."""


@dataclass(frozen=True, slots=True)
@checked
class MeasuredSpeed:
    """Measured seconds of a step by job and placement, as the artefact of Pollux (Qiao et al., 2021) has them, for its whole batch.

    Placements that were not measured have the step of the nearest by workers, then by hosts; jobs that were not have the speed of
    `otherwise`.
    """

    steps: Mapping[str, Steps]
    otherwise: SpeedModel = PlacementSpeed()

    def speed(self, job: ClusterJob, placement: JobPlacement, cluster: Cluster) -> float:
        """The fastest measured step with all workers, over that of the placement."""
        known = self.steps.get(job.name)
        if not known:
            return self.otherwise.speed(job, placement, cluster)
        shape = tuple(sorted(Counter(slot.host for slot in placement.slots).values()))
        return fastest(known, job.workers) / seconds_of(known, shape)


def fastest(known: Steps, workers: int) -> float:
    """The seconds of the fastest measured step of so many workers, or of those nearest to as many."""
    nearest = min(abs(sum(shape) - workers) for shape in known)
    return min(seconds for shape, seconds in known.items() if abs(sum(shape) - workers) == nearest)


def seconds_of(known: Steps, shape: tuple[int, ...]) -> float:
    """The seconds of a step on hosts with so many workers each: as measured, or of the nearest shape by workers, then by hosts."""
    return min(known.items(), key=lambda item: (abs(sum(item[0]) - sum(shape)), abs(len(item[0]) - len(shape)), item[0]))[1]
