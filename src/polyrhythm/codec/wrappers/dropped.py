"""The count of the elements that a filter dropped, in a codec's state."""

from __future__ import annotations

import torch
from torch import Tensor

from polyrhythm.core.tensors import State

_DROPPED = "dropped"


def nothing_dropped() -> State:
    """The counts before the first value."""
    return {_DROPPED: torch.zeros(2, dtype=torch.float64)}


def count_dropped(state: State, value: Tensor, kept: Tensor) -> State:
    """The counts, plus the elements of `value` (numel,) that differ in `kept`: their number, and the sum of the differences' magnitudes."""
    lost = (value - kept).abs()
    return {_DROPPED: state[_DROPPED] + torch.tensor([float((lost > 0).sum()), float(lost.sum(dtype=torch.float64))], dtype=torch.float64)}
