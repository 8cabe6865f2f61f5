"""The sum of a group of contributions, in the order given, and the number of workers that sent them.

The `combine` of most merges calls these functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter

import torch
from torch import Tensor

from polyrhythm.core.protocols.merge import AnyContribution
from polyrhythm.core.torch_private.one_process import without_dispatch
from polyrhythm.errors import WireError

_COUNT = attrgetter("count")
_IN_NUMPY = (torch.float32, torch.float64)


def total(values: Iterable[Tensor]) -> Tensor:
    """Σ value (numel,), with one value at a time in memory in addition to the sum; there must be at least one."""
    result: Tensor | None = None
    for value in values:
        result = value if result is None else result + value
    assert result is not None, "a merge has something to merge"
    return result


def sum_of(contributions: Sequence[AnyContribution]) -> Tensor:
    """The `total` of their values, the same bits. Ranges are added in place, without decoding them to whole vectors."""
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
    """Add `values` to `result` from `begin` on, by numpy: for a few elements it takes a tenth of torch's time, which is mostly dispatch."""
    with without_dispatch():
        array, start = result.numpy(), begin.numpy()[0]
        if not 0 <= start <= len(array) - len(values):
            raise WireError(f"A range of {len(values)} elements from {start} on came for a vector of {len(array)}: it is left out.")
        array[start : start + len(values)] += values.numpy()


def count(contributions: Sequence[AnyContribution]) -> int:
    """The number of workers whose contributions are merged."""
    return sum(map(_COUNT, contributions))
