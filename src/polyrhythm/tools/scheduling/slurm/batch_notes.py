"""Notes on what was submitted, beside the logs: another scheduler knows by them what the batch jobs are that still run.

A note is written before its batch job is, which has the note's path as its comment; and goes when that has ended. It has the secret of
the attempt, by which more workers join a crew, and only its owner reads it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from polyrhythm.cluster import WorkerSlot
from polyrhythm.core import atomic
from polyrhythm.tools.scheduling.job_run import CarriedJob, log_of

_MINE = 0o600


class BatchNote(msgspec.Struct, frozen=True):
    """The workers of a batch job with the host and the devices of each, and the attempt that they belong to; its `number` once it is
    known."""

    job: str
    workers: dict[str, tuple[str, tuple[int, ...]]]
    attempt: int
    secret: str
    port: int
    addresses: tuple[str, ...]
    system: str | None = None
    number: str | None = None

    @property
    def slots(self) -> dict[str, WorkerSlot]:
        """The slot of each worker."""
        return {worker: WorkerSlot(host, devices) for worker, (host, devices) in self.workers.items()}


def note_of(run: CarriedJob, workers: list[str], number: str | None = None) -> BatchNote:
    """The note on a batch job of these workers of `run`."""
    places = {worker: (run.workers[worker].host, run.workers[worker].devices) for worker in workers}
    return BatchNote(run.name, places, run.attempt, run.secret, run.port, run.addresses, run.system, number)


def path_of(out: Path, first: str) -> Path:
    """The file of the note on the batch job whose first worker has this name."""
    return log_of(out, first).with_suffix(".batch")


def write_note(note: BatchNote, out: Path) -> Path:
    """Write it; its file."""
    path = path_of(out, next(iter(note.workers)))
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic.replacing(path) as fresh, open(os.open(fresh, os.O_CREAT | os.O_WRONLY, _MINE), "wb") as file:
        file.write(msgspec.json.encode(note))
    return path


def notes_in(out: Path, job: str) -> Iterator[tuple[Path, BatchNote]]:
    """The notes on batch jobs of `job` that have not been seen to end."""
    for path in sorted((out / job).glob("worker-*.batch")):
        yield path, msgspec.json.decode(path.read_bytes(), type=BatchNote)
