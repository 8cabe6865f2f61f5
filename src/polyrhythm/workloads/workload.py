"""The protocol of bundled workloads: a name, a description, a metric, and a training function.

`WORKLOADS` in `workloads.registry` lists them; `polyrhythm run` and users load them by name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.errors import WorkloadError


@dataclass(frozen=True, slots=True)
class Metric:
    """A number that a workload reports, with its better direction."""

    name: str
    higher_is_better: bool


@dataclass(frozen=True, slots=True)
class Sizes:
    """The numbers of samples to train on in an epoch, to test on (none of them in both), and in one worker's batch.

    `origin` says where they come from: "bundled", or "generated from a seed".
    """

    training: int
    test: int
    batch: int
    origin: str = "bundled"


class Workload(Protocol):
    """Frozen settings that are called as the training function."""

    name: ClassVar[str]
    description: ClassVar[str]
    metric: ClassVar[Metric]

    @property
    def sizes(self) -> Sizes:
        """The numbers of samples, and the size of a worker's batch."""

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""


def require_positive(workload: str, **settings: float) -> None:
    """Raise WorkloadError for settings that are zero, negative or not finite, before anything runs."""
    for name, value in settings.items():
        if not (value > 0 and math.isfinite(value)):
            raise WorkloadError(f"{workload} was given {name}={value}, which is not allowed: {name} must be a number above zero.")


def require_not_negative(workload: str, **settings: float) -> None:
    """Raise WorkloadError for settings below zero, before anything runs."""
    for name, value in settings.items():
        if not value >= 0:
            raise WorkloadError(f"{workload} was given {name}={value}: it must be 0 or more.")
