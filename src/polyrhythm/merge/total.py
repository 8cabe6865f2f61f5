"""The sum of a group of contributions, in the order given, and how many workers sent them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from polyrhythm.core.protocols.merge import AnyContribution
from polyrhythm.errors import WireError

_IN_NUMPY = (torch.float32, torch.float64)


def total(values: Iterable[Tensor]) -> Tensor:
    """Σ value (numel,), with one value at a time in memory beside the sum; there must be one at least."""
    result: Tensor | None = None
    for value in values:
        result = value if result is None else result + value
    assert result is not None, "a merge has something to merge"
    return result


def sum_of(contributions: Sequence[AnyContribution]) -> Tensor:
    """The `total` of their values, the same bits: ranges are added where they are, and not decoded."""
    result, own = contributions[0].value, False
    for each in contributions[1:]:
        part = each.part
        if part is None or part[1].dtype != result.dtype or result.dtype not in _IN_NUMPY or result.device.type != "cpu":
            result = result + each.value
        else:
            if not own:
                result = result.clone()
            _add_range(result, *part)
        own = True
    return result


def _add_range(result: Tensor, begin: Tensor, values: Tensor) -> None:
    """Numpy takes a tenth of the time that torch takes for a few elements, most of which is that of modes that look at each operation."""
    with torch._C._DisableTorchDispatch():
        array, start = result.numpy(), begin.numpy()[0]
        if not 0 <= start <= len(array) - len(values):
            raise WireError(f"A range of {len(values)} elements from {start} on came for a vector of {len(array)}: it is left out.")
        array[start : start + len(values)] += values.numpy()


def count(contributions: Sequence[AnyContribution]) -> int:
    """How many workers sent what is to be merged."""
    return sum(contribution.count for contribution in contributions)
