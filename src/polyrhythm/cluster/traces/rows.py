"""Rows of a CSV file with a header, and jobs that use whole hosts."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from polyrhythm.cluster.jobs import ClusterJob, WorkerDemand
from polyrhythm.core.typed_files import unreadable
from polyrhythm.errors import CompositionError

HOST_DEVICES = 8
"""Devices of a host in the clusters of Philly and Tiresias: what needs more is a gang of workers with so many each."""


def rows(path: Path, needed: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """The rows by column. Raises `CompositionError` for a file that cannot be read, or has not all of the `needed` columns."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = [name for name in needed if name not in (reader.fieldnames or ())]
            if missing:
                raise CompositionError(
                    f"The trace {str(path)!r} has no column {missing[0]!r}: give a file with the columns {', '.join(needed)}."
                )
            yield from reader
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise unreadable("trace", path, problem, "Give a CSV file.") from problem


def number(row: Mapping[str, str], column: str, path: Path) -> float:
    """The number in a column. Raises `CompositionError` for other text."""
    try:
        return float(row[column] or 0.0)
    except (TypeError, ValueError) as problem:
        raise CompositionError(f"The trace {str(path)!r} has {row[column]!r} in the column {column!r}: give a number.") from problem


def gang(name: str, devices: int, seconds: float) -> ClusterJob:
    """A job with so many devices: on one host if it has as many, else a worker for each full host."""
    workers = max(1, -(-devices // HOST_DEVICES))
    return ClusterJob(name, WorkerDemand(-(-devices // workers), cores=1.0), workers, estimate=seconds)
