"""The record of a process that was killed, and so could not complete it: those who see that do."""

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
    """Say in the record in `directory` that its process was killed, as `why` tells; not where it has ended itself, or still writes.

    What cannot be read or written stays as it is: it is somebody else's record, and says by its state that nobody completed it.
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
