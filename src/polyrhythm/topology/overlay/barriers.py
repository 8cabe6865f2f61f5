"""Announcements of packets that the line takes long to carry."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


class Barrier(Protocol):
    """The choice of packets that are announced; frozen settings."""

    def announces(self, seconds: float, step: float) -> bool:
        """True if the elements of a packet that takes `seconds` are announced, where steps take `step` seconds."""


@dataclass(frozen=True, slots=True)
class Unannounced:
    """No announcements: a read gets what has come."""

    def announces(self, seconds: float, step: float) -> bool:
        return False


@dataclass(frozen=True, slots=True)
@checked
class SelectiveBarrier:
    """The indices of the elements are sent first; receivers respond to no read of them until their values have come (Gaia, NSDI 2017).

    This holds for packets that take more than `share` of a step: more than the line carries from one step to the next.
    """

    share: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.share < math.inf:
            raise CompositionError(f"SelectiveBarrier(share={self.share}) is no part of a step: give a number of at least 0, such as 1.")

    def announces(self, seconds: float, step: float) -> bool:
        """If the packet takes longer."""
        return seconds > self.share * step


def announcement(value: Tensor) -> Tensor:
    """The elements of `value` (numel,) that are not zero: indices (k,), int32, or a bit for each element, uint8, where that is shorter."""
    marks = value.numpy() != 0
    if 32 * int(marks.sum()) <= len(marks):
        return torch.from_numpy(np.flatnonzero(marks).astype(np.int32))
    return torch.from_numpy(np.packbits(marks))


def announced(tensor: Tensor, numel: int) -> Tensor:
    """The indices (k,) of which `announcement` made the tensor."""
    if tensor.dtype is torch.int32:
        return tensor.long()
    return torch.from_numpy(np.flatnonzero(np.unpackbits(tensor.numpy(), count=numel)))
