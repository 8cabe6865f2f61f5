"""How often objects that refer to each other in circles are looked for while a run is under way.

Every object of every worker lives as long as the run, and a look goes through all that are new. Most runs make no circles: then a look is
worth less than it costs, and the next one comes after twice as many new objects. One that finds some is followed by others as before.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_FIRST = 50_000
"""New objects after which the first look follows."""
_LAST = 64 * _FIRST
"""New objects after which one follows in any case."""
_WORTHWHILE = 50
"""A look is worth its time if it frees one object of so many that it sees."""


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Look as seldom as that is worth; as before when it ends."""
    before = gc.get_threshold()
    gc.set_threshold(_FIRST, *before[1:])
    gc.callbacks.append(_adapt)
    try:
        yield
    finally:
        gc.callbacks.remove(_adapt)
        gc.set_threshold(*before)


def _adapt(phase: str, found: dict[str, int]) -> None:
    if phase == "stop":
        seen, *older = gc.get_threshold()
        gc.set_threshold(min(2 * seen, _LAST) if found["collected"] * _WORTHWHILE < seen else _FIRST, *older)
