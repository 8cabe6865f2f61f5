"""The error for several learning rates where the optimizer of a merge takes one for all parameters."""

from __future__ import annotations

from polyrhythm.core.protocols.merge import Merge
from polyrhythm.errors import CompositionError


def several_rates(merge: Merge, rates: tuple[float, ...], instead: str) -> CompositionError:
    """The error for `rates` that differ, where `merge` steps with one; `instead` is the alternative to name."""
    return CompositionError(
        f"{merge!r} steps with one learning rate, and the optimizer's groups have {', '.join(map(str, rates))}: "
        f"give all groups the same, or use {instead}."
    )
