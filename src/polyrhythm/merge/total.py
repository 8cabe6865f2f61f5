"""The sum of a group of contributions, in the order given."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor


def total(values: Iterable[Tensor]) -> Tensor:
    """Σ value (numel,), with one value at a time in memory beside the sum; there must be one at least."""
    result: Tensor | None = None
    for value in values:
        result = value if result is None else result + value
    assert result is not None, "a merge has something to merge"
    return result
