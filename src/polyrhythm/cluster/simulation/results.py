"""What a simulation of a cluster found."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from polyrhythm.cluster.placements import JobPlacement
from polyrhythm.cluster.reasons import WaitReason


@dataclass(frozen=True, slots=True)
class JobSegment:
    """A time in which a job had one placement."""

    job: str
    begin: float
    end: float
    placement: JobPlacement


@dataclass(frozen=True, slots=True)
class JobRun:
    """One job: when it was submitted, first started, and ended, how much it used, and how often it was stopped or resized."""

    name: str
    amount: float
    submitted: float
    started: float
    ended: float
    stops: int = 0
    resizes: int = 0

    @property
    def completion(self) -> float:
        """Seconds from arrival to end."""
        return self.ended - self.submitted

    @property
    def wait(self) -> float:
        """Seconds from arrival to the first start."""
        return self.started - self.submitted


@dataclass(frozen=True, slots=True)
class ClusterRun:
    """A whole simulation. `usage` has the devices and cores in use, and the jobs that wait, from each moment on.

    `unfinished` are jobs that could never start, with the reason.
    """

    policy: str
    jobs: tuple[JobRun, ...]
    segments: tuple[JobSegment, ...]
    usage: tuple[tuple[float, float, float, int], ...]
    unfinished: dict[str, WaitReason]
    failures: int
    decisions: int

    @property
    def mean_completion(self) -> float:
        """The mean seconds from arrival to end; 0 without jobs."""
        return statistics.fmean(job.completion for job in self.jobs) if self.jobs else 0.0

    @property
    def mean_wait(self) -> float:
        """The mean seconds from arrival to the first start; 0 without jobs."""
        return statistics.fmean(job.wait for job in self.jobs) if self.jobs else 0.0

    @property
    def makespan(self) -> float:
        """Seconds until the last job has ended."""
        return max((job.ended for job in self.jobs), default=0.0)

    @property
    def stops(self) -> int:
        """How often jobs were stopped."""
        return sum(job.stops for job in self.jobs)

    def completion_at(self, part: float) -> float:
        """The seconds within which so large a part of the jobs has completed after its arrival, such as 0.95."""
        ordered = sorted(job.completion for job in self.jobs)
        return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0

    def in_use(self, kind: str) -> float:
        """The mean devices, or cores, in use until the last job has ended."""
        column = 1 if kind == "devices" else 2
        ends = [*(each[0] for each in self.usage[1:]), self.makespan]
        area = sum(each[column] * max(0.0, end - each[0]) for each, end in zip(self.usage, ends, strict=False))
        return area / self.makespan if self.makespan else 0.0
