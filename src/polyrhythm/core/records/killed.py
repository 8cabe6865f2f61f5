"""Completes the record of a process that was killed before it could do so: called by processes that notice it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from polyrhythm.core.atomic import write
from polyrhythm.core.lock import is_held
from polyrhythm.core.records import document, unfinished
from polyrhythm.core.records.directory import EVENTS, RESERVE, RUN
from polyrhythm.core.records.load import load
from polyrhythm.core.records.outcome import State
from polyrhythm.errors import CompositionError


def complete(directory: Path, why: str, state: State = "failed") -> None:
    """Mark the record in `directory` as that of a killed process, with the reason `why`, unless that has completed it or still writes it.

    A record that cannot be read or written stays as it is: its state `running` shows that nobody completed it.
    """
    if not (directory / RUN).is_file() or is_held(directory / EVENTS):
        return
    with suppress(CompositionError, OSError):
        outcome = load(directory)
        if outcome.state == "running":
            outcome.state = state
            outcome.summary.error = f"{why}: {unfinished.extent(outcome)}."
            write(directory / RUN, document.content(outcome))
            (directory / RESERVE).unlink(missing_ok=True)
