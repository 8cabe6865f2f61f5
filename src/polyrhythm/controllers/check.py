"""The check that controllers make of their interval.

Their `__post_init__` calls it.
"""

from __future__ import annotations

from polyrhythm.errors import CompositionError


def check_every(piece: object, every: int) -> None:
    """Raise CompositionError unless `every` is at least one step."""
    if every < 1:
        raise CompositionError(f"{piece!r} would never decide: give every=1 step or more.")
