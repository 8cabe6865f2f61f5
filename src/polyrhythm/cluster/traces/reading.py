"""Finds the format of a trace by its columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from polyrhythm.cluster.simulation.traced_job import TracedJob
from polyrhythm.cluster.traces import alibaba, philly, pollux, tiresias
from polyrhythm.core.typed_files import unreadable
from polyrhythm.errors import CompositionError, unknown


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """A format: the columns by which it is known, its reader, and a generator of samples (file name to text, the trace first)."""

    columns: tuple[str, ...]
    read: Callable[[Path], tuple[TracedJob, ...]]
    sample: Callable[[int, int], Mapping[str, str]]


TRACE_FORMATS = {
    "philly": TraceFormat(philly.COLUMNS, philly.read, philly.sample),
    "alibaba": TraceFormat(alibaba.COLUMNS, alibaba.read, alibaba.sample),
    "tiresias": TraceFormat(tiresias.COLUMNS, tiresias.read, tiresias.sample),
    "pollux": TraceFormat(pollux.COLUMNS, pollux.read, pollux.sample),
}
"""The formats by name."""


def read_trace(path: str | Path) -> tuple[TracedJob, ...]:
    """The jobs of a trace in any of the formats, which its columns tell. Raises `CompositionError` for other files."""
    path = Path(path)
    try:
        with path.open(encoding="utf-8") as file:
            header = file.readline().strip().split(",")
    except (OSError, UnicodeDecodeError) as problem:
        raise unreadable("trace", path, problem, "Give a CSV file.") from problem
    for found in TRACE_FORMATS.values():
        if set(found.columns) <= set(header):
            return found.read(path)
    known = "; ".join(f"{name}: {', '.join(found.columns)}" for name, found in TRACE_FORMATS.items())
    raise CompositionError(f"The trace {str(path)!r} has the columns {', '.join(header)}, which are of no known format. There are {known}.")


def write_sample(name: str, folder: str | Path, seed: int = 0, jobs: int = 200) -> Path:
    """Write a sample of the format to `folder`, generated from `seed`, and return the path of the trace."""
    if name not in TRACE_FORMATS:
        raise unknown("format of traces", name, TRACE_FORMATS)
    files = TRACE_FORMATS[name].sample(seed, jobs)
    for file, text in files.items():
        path = Path(folder) / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Path(folder) / next(iter(files))
