"""The directory that keeps a run: run.json, events.jsonl and weights.safetensors.

An earlier record is moved to a hidden name, and deleted when the new one is complete: no reader sees parts of both, and a run that was
started over an old one by mistake has not destroyed it yet.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from polyrhythm.core.atomic import flush
from polyrhythm.core.lock import is_held
from polyrhythm.core.records import document, event_lines, weights
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.errors import CompositionError, PolyrhythmError

RUN, EVENTS, WEIGHTS = "run.json", "events.jsonl", "weights.safetensors"
EARLIER, RESERVE = ".earlier-run", ".reserve"
_FILES = (WEIGHTS, RUN, EVENTS)  # in the order in which they are removed, so that weights are never next to the record of another run


def save(outcome: Outcome, directory: str | Path) -> Path:
    """Write the record of `outcome` into `directory`, which is made if it is missing: all of it, or nothing.

    Raises CompositionError if that cannot be, because of the directory or of weights that safetensors cannot hold.
    """
    path = make(directory)
    fresh = path / f".record.{os.getpid()}.new"
    try:
        claim(path)
        fresh.mkdir(exist_ok=True)
        _write_all(outcome, fresh)
        make_room(path)
        for name in reversed(_FILES):
            if (fresh / name).exists():
                os.replace(fresh / name, path / name)
        drop_earlier(path)
    except OSError as problem:
        raise CompositionError(f"The run cannot be saved in {directory}: {reason(problem)}. Give another directory.") from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return path


def _write_all(outcome: Outcome, folder: Path) -> None:
    with (folder / EVENTS).open("wb") as file:
        file.writelines(map(event_lines.line, outcome.events))
    if outcome.weights:
        weights.write(outcome.weights, folder / WEIGHTS)
    (folder / RUN).write_bytes(document.content(outcome))
    for file_path in folder.iterdir():
        flush(file_path)


def path_of(given: str | Path) -> Path:
    """`given` as a path. Raises CompositionError for what is none."""
    try:
        path = Path(given)
        os.fsencode(path)
    except (TypeError, ValueError) as problem:
        raise CompositionError(f"{given!r} is not a path: {reason(problem)}. Give a string or a Path.") from None
    if isinstance(given, str) and not given:
        raise CompositionError("'' is not a path: it is empty. Give that of a directory; \".\" is the current one.")
    if "\0" in str(path):
        raise CompositionError(f"{given!r} is not a path: it contains a null character. Leave that out.")
    return path


def make(directory: str | Path) -> Path:
    """The directory, made if it is missing. Raises CompositionError for what cannot be one."""
    path = path_of(directory)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise CompositionError(f"{path} cannot be a run directory: {reason(problem)}. Give another directory.") from None
    return path


def claim(path: Path) -> None:
    """Delete the temporary files of a process that was killed. Raises CompositionError where a run is under way, and OSError."""
    if is_held(path / EVENTS):
        raise CompositionError(f"Another run is writing its record into {path}: give another directory.")
    for name in _FILES:
        for stale in path.glob(f".{name}.*.new"):
            stale.unlink()
    (path / RESERVE).unlink(missing_ok=True)
    for stale in path.glob(".record.*.new"):
        shutil.rmtree(stale, ignore_errors=True)


def make_room(path: Path) -> None:
    """Move the record in `path`, if there is one, to a hidden directory there, which keeps the last record that has weights.

    Raises OSError.
    """
    there = [name for name in _FILES if os.path.lexists(path / name)]
    earlier = path / EARLIER
    if WEIGHTS not in there and (earlier / WEIGHTS).exists():
        for name in there:
            (path / name).unlink()
    elif there:
        shutil.rmtree(earlier, ignore_errors=True)
        earlier.mkdir()
        for name in there:
            os.replace(path / name, earlier / name)


def give_back(path: Path) -> None:
    """Move the earlier record back, as far as that can be done."""
    with suppress(OSError):
        for name in reversed(_FILES):
            if (path / EARLIER / name).exists():
                os.replace(path / EARLIER / name, path / name)
        (path / EARLIER).rmdir()


def drop_earlier(path: Path) -> None:
    """Delete the earlier record."""
    shutil.rmtree(path / EARLIER, ignore_errors=True)


def reason(problem: Exception) -> str:
    """The message of `problem` from the system or the library, without a full stop."""
    message = problem.strerror if isinstance(problem, OSError) else None
    if isinstance(problem, PolyrhythmError):
        return str(problem).rstrip(".")
    return message or str(problem).rstrip(".") or type(problem).__name__
