"""Refuses state in a checkpoint that does not fit the run that is resumed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from polyrhythm.errors import CheckpointError, PolyrhythmError


@contextmanager
def fitting(what: str) -> Iterator[None]:
    """Raise CheckpointError for what the block raises while it restores `what`.

    The files were verified before, so the cause is another training function, model or optimizer, or another version of a library.
    """
    try:
        yield
    except PolyrhythmError:
        raise
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError, AssertionError) as problem:
        reason = " ".join(str(problem).split()) or "no reason was given"
        raise CheckpointError(
            f"The checkpoint has another kind of {what} than this run ({type(problem).__name__}: {reason}): resume it with the training "
            "function, the versions of libraries and the settings that wrote it, or begin a new run in another directory."
        ) from problem
