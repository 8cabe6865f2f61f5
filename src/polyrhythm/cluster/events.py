"""What happens to a cluster: what a backend observes, and a state takes in."""

from __future__ import annotations

from dataclasses import dataclass

from polyrhythm.cluster.jobs import ClusterJob
from polyrhythm.cluster.placements import JobPlacement


@dataclass(frozen=True, slots=True)
class JobSubmitted:
    """A job has arrived."""

    job: ClusterJob


@dataclass(frozen=True, slots=True)
class JobEnded:
    """A job has completed, failed for good, or was withdrawn."""

    job: str


@dataclass(frozen=True, slots=True)
class WorkersObserved:
    """The workers of a job that a backend says are in place, whatever was ordered: none, some, or all of them."""

    placement: JobPlacement


@dataclass(frozen=True, slots=True)
class PartLost:
    """A host, or one of its devices, is not to be used: it is dead, or was taken out."""

    host: str
    device: int | None = None


@dataclass(frozen=True, slots=True)
class PartSuspected:
    """A host, or one of its devices, gets no new workers for now; those that are there stay."""

    host: str
    device: int | None = None


@dataclass(frozen=True, slots=True)
class PartRestored:
    """A host, or one of its devices, may be used again."""

    host: str
    device: int | None = None


ClusterEvent = JobSubmitted | JobEnded | WorkersObserved | PartLost | PartSuspected | PartRestored
