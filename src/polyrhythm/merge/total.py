"""The sum of a group of contributions, in the order given."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from polyrhythm.pieces.merge import Contribution


def total(contributions: Sequence[Contribution]) -> Tensor:
    """Σ value (numel,)."""
    result = contributions[0].value
    for contribution in contributions[1:]:
        result = result + contribution.value
    return result
