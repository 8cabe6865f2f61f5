"""The error that a run raises when a program or an actor raised."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from polyrhythm.errors import PolyrhythmError, WorkerFailed

_PACKAGE = str(Path(__file__).resolve().parents[2])


def failure(actor: str, error: BaseException) -> PolyrhythmError:
    """The error that ends the run: our own as it is, else one that has the actor's name and the traceback of the user's code."""
    if isinstance(error, PolyrhythmError):
        return error
    lines = traceback.format_exception(type(error), error, _own(error.__traceback__))
    reason = f"it called sys.exit({error.code!r})" if isinstance(error, SystemExit) else f"{type(error).__name__}: {error}"
    problem = WorkerFailed(actor, reason, "".join(lines))
    problem.__cause__ = error
    return problem


def fail(actor: str, error: BaseException) -> NoReturn:
    """End the run."""
    raise failure(actor, error)


def _own(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame that is not ours; all of it when there is no such frame."""
    step = trace
    while step is not None and step.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        step = step.tb_next
    return step or trace
