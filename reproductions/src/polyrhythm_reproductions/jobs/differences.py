"""The distance of two runs."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor


def largest_difference(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
    """The largest difference of any element of any tensor, in the same units; they have the same names."""
    assert one.keys() == other.keys()
    return max((value.double() - other[name].double()).abs().max().item() for name, value in one.items())
