"""What a checkpoint holds, where the run that is resumed has no place for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from polyrhythm.errors import CheckpointError, PolyrhythmError


@contextmanager
def fitting(what: str) -> Iterator[None]:
    """Raise CheckpointError for what the block raises while it restores `what`.

    Files are read to the bit, so that nothing but another training function, model or optimizer, or another version of a library, is left
    as the cause.
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
