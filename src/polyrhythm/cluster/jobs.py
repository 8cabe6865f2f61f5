"""Jobs: gangs of equal workers, and what each worker needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError

WHOLE = 1000
"""The thousandths of a whole device, or core."""


@dataclass(frozen=True, slots=True)
@checked
class WorkerDemand:
    """What one worker needs: `devices` (none for work on cores), of one of the `models`, each with `device_memory` bytes; `cores` and
    `memory` in bytes of the host.

    `milli` are the thousandths of its only device that a worker takes; others may have the rest.

    Examples:
        >>> WorkerDemand(devices=2).kind, WorkerDemand(cores=4).kind
        ('devices', 'cores')
    """

    devices: int = 0
    milli: int = WHOLE
    device_memory: int = 0
    models: tuple[str, ...] = ()
    cores: float = 1.0
    memory: int = 0

    def __post_init__(self) -> None:
        if self.devices < 0 or self.cores < 0 or self.memory < 0 or self.device_memory < 0 or not (self.devices or self.cores):
            raise CompositionError(f"A worker was given {self.devices} devices and {self.cores} cores: give one of them, above zero.")
        if not 0 < self.milli <= WHOLE or (self.milli < WHOLE and self.devices != 1):
            raise CompositionError(
                f"A worker was given {self.milli} thousandths of {self.devices} devices: a part, from 1 to {WHOLE}, is of one device."
            )

    @property
    def millicores(self) -> int:
        """Thousandths of cores."""
        return round(self.cores * WHOLE)

    @property
    def kind(self) -> Literal["devices", "cores"]:
        """What of the quotas a worker uses: those of devices if it needs any, else those of cores."""
        return "devices" if self.devices else "cores"

    @property
    def amount(self) -> float:
        """How much of that kind it uses."""
        return self.devices * self.milli / WHOLE if self.devices else self.cores


@dataclass(frozen=True, slots=True)
@checked
class ClusterJob:
    """A gang of `workers`, each with the same demand: all are placed, or none. With `min_workers` below `workers` the job is malleable: it
    may start, or go on, with fewer.

    `priority` counts within the queue, higher first. `estimate` is the expected seconds with all workers, if known: reservations then have
    a time. `level` names the smallest kind of domain in which its workers should be, such as "rack": with `mode` "required" they wait until
    one has room, with "preferred" a larger domain will do. `step_compute` are the seconds in which one of `workers` computes a step, and
    `step_bytes` what each of them then exchanges; a simulation uses them for the speed of a placement.

    Examples:
        >>> ClusterJob("bert", WorkerDemand(devices=1), workers=4, min_workers=2).is_malleable
        True
    """

    name: str
    demand: WorkerDemand = WorkerDemand()
    workers: int = 1
    min_workers: int | None = None
    queue: str = "default"
    priority: int = 0
    preemptible: bool = True
    estimate: float | None = None
    level: str | None = None
    mode: str = "preferred"
    step_compute: float = 1.0
    step_bytes: float = 0.0

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise CompositionError(f"The job {self.name!r} has workers={self.workers}: give 1 or more.")
        if not 1 <= self.least <= self.workers:
            raise CompositionError(
                f"The job {self.name!r} has min_workers={self.least} and workers={self.workers}: give at least 1, at most {self.workers}."
            )
        if self.mode not in ("preferred", "required"):
            raise CompositionError(f"The job {self.name!r} has mode={self.mode!r}: give 'preferred' or 'required'.")
        if self.estimate is not None and not self.estimate >= 0:
            raise CompositionError(f"The job {self.name!r} has an estimate of {self.estimate} seconds: give zero or more, or none.")
        if not self.step_compute > 0 or self.step_bytes < 0:
            raise CompositionError(f"The job {self.name!r} has steps of {self.step_compute} s and {self.step_bytes} bytes: give more.")

    @property
    def least(self) -> int:
        """The fewest workers with which it runs."""
        return self.workers if self.min_workers is None else self.min_workers

    @property
    def is_malleable(self) -> bool:
        """True if it may run with fewer workers."""
        return self.least < self.workers

    def step_seconds(self, workers: int, quality: float) -> float:
        """The seconds of a step with so many workers: its computation is divided among them, and its bytes go around a ring whose slowest
        link has `quality` bytes per second.
        """
        compute = self.step_compute * self.workers / workers
        exchange = 2 * (workers - 1) / workers * self.step_bytes / quality if self.step_bytes else 0.0
        return compute + exchange

    @property
    def amount(self) -> float:
        """The devices, or cores, of all workers."""
        return self.workers * self.demand.amount

    @property
    def shape(self) -> tuple[WorkerDemand, int, int, str | None, str]:
        """What its placement depends on."""
        return (self.demand, self.workers, self.least, self.level, self.mode)
