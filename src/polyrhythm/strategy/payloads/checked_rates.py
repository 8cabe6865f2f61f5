"""Learning rates for an optimizer that takes one for all parameters."""

from __future__ import annotations

from polyrhythm.errors import CompositionError
from polyrhythm.pieces.merge import Merge


def one_rate(merge: Merge, rates: tuple[float, ...], instead: str) -> tuple[float, ...]:
    """`rates`, which are all the same. Raises CompositionError where they are not: `instead` is what could be used."""
    if len(set(rates)) > 1:
        raise CompositionError(
            f"{merge!r} steps with one learning rate, and the optimizer's groups have {', '.join(map(str, rates))}: "
            f"give all groups the same, or use {instead}."
        )
    return rates
