"""What all controllers refuse."""

from __future__ import annotations

from polyrhythm.errors import CompositionError


def check_every(piece: object, every: int) -> None:
    """Raise CompositionError for a number of steps that is none."""
    if every < 1:
        raise CompositionError(f"{piece!r} would never decide: give every=1 step or more.")
