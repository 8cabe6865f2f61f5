"""The sum of a group of contributions, in the order given, and how many workers sent them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor

from polyrhythm.pieces.merge import AnyContribution


def total(values: Iterable[Tensor]) -> Tensor:
    """Σ value (numel,), with one value at a time in memory beside the sum; there must be one at least."""
    result: Tensor | None = None
    for value in values:
        result = value if result is None else result + value
    assert result is not None, "a merge has something to merge"
    return result


def count(contributions: Sequence[AnyContribution]) -> int:
    """How many workers sent what is to be merged."""
    return sum(contribution.count for contribution in contributions)
