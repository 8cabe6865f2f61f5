"""A job while it is carried out: its attempts, its workers and where each is, and how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from polyrhythm.cluster import Cluster, WorkerSlot
from polyrhythm.errors import NoProgressError
from polyrhythm.tools.scheduling.training_jobs import TrainingJob

REFUSED = 2
"""The exit status of a worker for what cannot be run, now or later."""
_LONGEST = 200
_FINAL = (REFUSED, NoProgressError.EXIT_CODE)


@dataclass(slots=True)
class CarriedJob:
    """The workers of the present attempt by name, with their slots, and those that were asked to leave and may still be there.

    `finished` and `failures` are those that have ended by themselves; `refused` if one of them says that another try is in vain. Where
    a change means another attempt, that begins in `next_slots` when those that leave have ended. `held` is why an engine that has taken
    them does not let them begin.
    """

    training: TrainingJob
    attempt: int = 0
    started: int = 0
    secret: str = ""
    port: int = 0
    addresses: tuple[str, ...] = ()
    system: str | None = None
    workers: dict[str, WorkerSlot] = field(default_factory=dict)
    leaving: dict[str, WorkerSlot] = field(default_factory=dict)
    next_slots: tuple[WorkerSlot, ...] | None = None
    held: str = ""
    finished: int = 0
    failed: int = 0
    alone: float | None = None
    failures: list[str] = field(default_factory=list)
    failed_numbers: list[int] = field(default_factory=list)
    refused: bool = False
    begun: float | None = None
    seconds: float | None = None
    over: str | None = None
    reason: str = ""

    @property
    def name(self) -> str:
        """The job's name."""
        return self.training.job.name

    def begin(self, secret: str, port: int, addresses: tuple[str, ...], system: str | None, now: float) -> None:
        """Begin another attempt."""
        self.attempt += 1
        self.secret, self.port, self.addresses, self.system = secret, port, addresses, system
        self.workers, self.finished, self.failed, self.alone = {}, 0, 0, None
        self.begun = now if self.begun is None else self.begun

    def adopt(self, secret: str, port: int, addresses: tuple[str, ...], system: str | None, attempt: int) -> None:
        """Go on with an attempt that another scheduler has begun."""
        self.attempt, self.secret, self.port, self.addresses, self.system = attempt, secret, port, addresses, system

    def next_worker(self, slot: WorkerSlot) -> str:
        """The name of one more worker, at `slot`."""
        name = f"{self.name}/{self.attempt}/{self.started}"
        self.started += 1
        self.workers[name] = slot
        return name

    def ended(self, worker: str, status: int, out: Path) -> None:
        """One worker has ended by itself; what it printed last is in its log below `out`."""
        if status == 0:
            self.workers.pop(worker)
            self.finished += 1
        else:
            self.refused = self.refused or status in _FINAL
            how = f"signal {-status}" if status < 0 else f"exit code {status}"
            self.failed_by(worker, f"ended with {how}{_last_words(log_of(out, worker))}")

    def failed_by(self, worker: str, how: str) -> None:
        """One worker has failed; `how` is the end of a sentence about it."""
        slot = self.workers.pop(worker)
        self.failed += 1
        self.failures.append(f"its worker on {slot.host} {how}")
        self.failed_numbers.append(_number(worker))

    def lingering(self, patience: float, now: float) -> list[str]:
        """The workers that are left so many seconds after another has ended by itself, and will not come to an end with it.

        Of a crew that has ended, those that came too late to join it; of a fixed number of workers, the others of one that failed.
        """
        is_over = self.finished > 0 if self.training.job.is_malleable else self.failed > 0
        self.alone = None if not is_over or not self.workers else now if self.alone is None else self.alone
        return list(self.workers) if self.alone is not None and now > self.alone + patience else []

    def settle(self, restarts: int, now: float) -> bool:
        """Decide what follows when workers have ended; True if the job is over."""
        job = self.training.job
        if self.over is not None:
            return True
        is_vain = job.is_malleable and self._is_vain(restarts)
        if not is_vain and (self.workers or not (self.finished or self.failures)):
            return False
        if self.finished and (job.is_malleable or self.finished >= job.workers):
            self.over = "ended"
        elif is_vain or self.refused or len(self.failures) > restarts * job.workers:
            self.over, self.reason = "failed", self.failures[-1]
        self.seconds = now - (now if self.begun is None else self.begun)
        return self.over is not None

    def _is_vain(self, restarts: int) -> bool:
        """True if one worker after another fails: none that is there now was there before so many of the last failures.

        Members of a crew are replaced one by one, so that some are always there; a host on which all fail must not end the others.
        """
        most = self.training.job.workers * (1 if self.refused else restarts)
        if self.finished or len(self.failed_numbers) <= most:
            return False
        return all(_number(worker) > self.failed_numbers[-most - 1] for worker in self.workers)


def has_room(cluster: Cluster, runs: Iterable[CarriedJob], run: CarriedJob, slots: Sequence[WorkerSlot]) -> bool:
    """True if more workers of `run` fit in `slots` beside all that are there, those that are leaving too: they take what they have
    until they have ended."""
    free = {slot.host: cluster.host(slot.host).free() for slot in slots}
    there = [(each, slot) for each in runs for slot in (*each.workers.values(), *each.leaving.values()) if slot.host in free]
    for each, slot in (*there, *((run, slot) for slot in slots)):
        demand = each.training.job.demand
        free[slot.host] = free[slot.host].without(demand.millicores, demand.memory, slot.devices, demand.milli)
    return all(left.is_valid for left in free.values())


def log_of(out: Path, worker: str) -> Path:
    """The file with what the worker of that name prints."""
    job, _, number = worker.split("/")
    return out / job / f"worker-{number}.log"


def _number(worker: str) -> int:
    return int(worker.rpartition("/")[2])


def _last_words(log: Path) -> str:
    try:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        return ""
    return f": {lines[-1].removeprefix('polyrhythm: ')[:_LONGEST]}" if lines else ""
