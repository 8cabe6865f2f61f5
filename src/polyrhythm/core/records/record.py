"""The record of a run that is under way: run.json from the beginning, and the events as they happen."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from io import FileIO
from pathlib import Path

from polyrhythm.core.atomic import replacing, write
from polyrhythm.core.lock import hold
from polyrhythm.core.records import directory as directories
from polyrhythm.core.records import document, event_lines, weights
from polyrhythm.core.records.directory import EVENTS, RESERVE, RUN, WEIGHTS, reason
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.errors import CompositionError, RecordError

_RESERVED_BYTES = 2**16
"""Bytes reserved until run.json is written for the last time, so that the numbers still fit on a disk that was filled meanwhile."""


class Record:
    """Writes the record of `outcome` into `directory` while the run is under way.

    Raises RecordError if the first files cannot be written, CompositionError where it is no directory, or where another run is writing.

    Once the run has started, no failure here ends it: a full disk is no reason to lose a training. Parts that could not be written
    are tried again at the end, and those that fail again are named in the outcome's `remarks`.
    """

    def __init__(self, outcome: Outcome, directory: str | Path) -> None:
        self._outcome = outcome
        self._path = directories.make(directory)
        self._whole = 0  # events that are in the file, and where the last of them ends
        self._end = 0
        self._broken = False
        try:
            self._file = _opened(self._path, document.content(outcome))
        except OSError as problem:
            raise RecordError(f"No record can be written in {directory}: {reason(problem)}. Give another directory.") from None

    def follow(self) -> None:
        """Write the events that have come since the last time."""
        if self._broken:
            return
        try:
            self._append()
        except OSError:
            self._broken = True

    def finish(self) -> list[str]:
        """Complete the record from the present `outcome`; returns a sentence for each part that could not be written."""
        with self._file:
            if self._in_place():
                deeds = {EVENTS: self._write_events, WEIGHTS: self._write_weights, RUN: self._write_run}
                troubles = [trouble for name, deed in deeds.items() if (trouble := self._try(name, deed))]
                if not troubles and self._outcome.state == "ended":
                    directories.drop_earlier(self._path)
                return troubles
        trouble = self._try("It", self._write_anew)
        return [trouble] if trouble else []

    def _try(self, name: str, deed: Callable[[], None]) -> str | None:
        try:
            deed()
        except (OSError, CompositionError, MemoryError) as problem:
            trouble = f"The record in {self._path} is incomplete: {name} could not be written ({reason(problem)})."
            self._outcome.remarks.append(trouble)
            return trouble
        return None

    def _append(self) -> None:
        events = self._outcome.events
        while self._whole < len(events):
            left = memoryview(event_lines.line(events[self._whole]))
            size = len(left)
            while left:
                left = left[self._file.write(left) :]
            self._end += size
            self._whole += 1

    def _in_place(self) -> bool:
        """True if the file that is being written is still the one in the directory."""
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), os.stat(self._path / EVENTS))
        except OSError:
            return False

    def _write_events(self) -> None:
        if os.fstat(self._file.fileno()).st_size != self._end:  # an incomplete last line
            os.ftruncate(self._file.fileno(), self._end)
        self._file.seek(self._end)
        try:
            self._append()
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file.fileno(), self._end)
            raise
        os.fsync(self._file.fileno())

    def _write_weights(self) -> None:
        if self._outcome.weights:
            with replacing(self._path / WEIGHTS) as fresh:
                weights.write(self._outcome.weights, fresh)

    def _write_run(self) -> None:
        with suppress(OSError):
            (self._path / RESERVE).unlink(missing_ok=True)
        write(self._path / RUN, document.content(self._outcome))

    def _write_anew(self) -> None:
        directories.save(self._outcome, self._path)


def _opened(path: Path, provisional: bytes) -> FileIO:
    """The file for the events of a new run in `path`, after an earlier record was moved away; if that fails, all is as it was."""
    directories.claim(path)
    with ExitStack() as undo:
        undo.callback(directories.give_back, path)
        directories.make_room(path)
        file = undo.enter_context((path / EVENTS).open("wb", buffering=0))
        undo.callback((path / EVENTS).unlink)
        hold(file)
        write(path / RUN, provisional)
        undo.callback((path / RESERVE).unlink, missing_ok=True)
        (path / RESERVE).write_bytes(os.urandom(_RESERVED_BYTES))  # not zeros, of which some file systems keep none
        undo.pop_all()
    return file
