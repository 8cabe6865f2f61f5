"""Learning rates for a merge whose optimizer may take one for all parameters."""

from __future__ import annotations

from polyrhythm.core.protocols.merge import Merge
from polyrhythm.errors import CompositionError


def checked_rates(merge: Merge, rates: tuple[float, ...], instead: str, takes_one: bool) -> tuple[float, ...]:
    """`rates`. Raises CompositionError where the merge `takes_one` and they differ; `instead` is the alternative to name."""
    if takes_one and len(set(rates)) > 1:
        raise CompositionError(
            f"{merge!r} steps with one learning rate, and the optimizer's groups have {', '.join(map(str, rates))}: "
            f"give all groups the same, or use {instead}."
        )
    return rates
