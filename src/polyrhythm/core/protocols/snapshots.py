"""Copies of the weights at fixed moments, kept until they can be evaluated without disturbing the training.

Parts of a replica and servers keep them (`strategy.snapshots`), and worker 0 evaluates them at the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

FIRST_SECONDS = 1e-3
PER_DOUBLING = 8
"""The moments are a grid that is the same for every run: 1 ms after the start, then each 9 % later than the one before."""


def moment(index: int) -> float:
    """Seconds from the start of the run to the moment `index`."""
    return FIRST_SECONDS * math.exp2(index / PER_DOUBLING)


def index_at(time: float) -> int:
    """The latest moment that is not after `time`; -1 before the first."""
    if time < FIRST_SECONDS:
        return -1
    index = math.floor(PER_DOUBLING * math.log2(time / FIRST_SECONDS))
    return index + 1 if moment(index + 1) <= time else index if moment(index) <= time else index - 1


class Snapshots:
    """Keeps a copy of the weights for each moment at which they differ from those at the moment before.

    `look` is called before they change. `kept` has them under the first moment at which they had this value. Where copies take more than
    `budget` bytes, only every second moment is kept, then every fourth; `stride` is the distance from one to the next, and `seen` is the
    latest moment that has passed. Weights that are larger than the budget are not kept at all: they are `too_large`, and only the end is
    known.
    """

    def __init__(self, budget: int) -> None:
        self.wanted = False
        self.kept: dict[int, Tensor] = {}
        self.stride = 1
        self.budget = budget
        self.seen = -1
        self.too_large = False

    def due(self, now: float) -> bool:
        """True if a moment has passed at `now` for which no copy was made yet: before that `look` would keep nothing."""
        return self.wanted and not self.too_large and self._next(self.seen + 1) <= index_at(now)

    def look(self, now: float, weights: Tensor) -> None:
        """`weights` (numel,) are about to change at `now`."""
        if not self.due(now):
            return
        nbytes = weights.numel() * weights.element_size()
        if nbytes > self.budget:
            self.too_large = True
            return
        first = self._next(self.seen + 1)
        self.seen = index_at(now)
        copy = weights.detach().to("cpu", copy=True)
        if self.kept and torch.equal(copy, self.kept[max(self.kept)]):
            return  # they are still as they were
        self.kept[first] = copy
        while len(self.kept) * nbytes > self.budget:
            self._thin()

    def at(self, index: int) -> Tensor | None:
        """The weights at a moment; None where they had their current value already."""
        if index > self.seen:
            return None
        earlier = [first for first in self.kept if first <= index]
        return self.kept[max(earlier)] if earlier else None

    def _next(self, index: int) -> int:
        return -(-index // self.stride) * self.stride

    def _thin(self) -> None:
        """Keep only even multiples of the stride: weights of an odd moment move to the next even one, unless newer weights are there."""
        self.stride *= 2
        ordered, self.kept = sorted(self.kept.items()), {}
        for first, weights in ordered:
            if self._next(first) <= self.seen:
                self.kept[self._next(first)] = weights  # the later one counts


def together(snapshots: Sequence[Snapshots]) -> list[int]:
    """The moments at which one of several has new weights, and the weights of all are known; none if one of them is too large."""
    if any(snapshots.too_large for snapshots in snapshots):
        return []
    stride = max((snapshots.stride for snapshots in snapshots), default=1)
    return sorted({-(-first // stride) * stride for snapshots in snapshots for first in snapshots.kept})


def before(index: int, snapshots: Sequence[Snapshots]) -> float:
    """Seconds of the moment before `index`, of those at which the weights of all are known; 0 where there is none."""
    if any(snapshots.too_large for snapshots in snapshots):
        return 0.0
    stride = max((snapshots.stride for snapshots in snapshots), default=1)
    earlier = (index - 1) // stride * stride
    return moment(earlier) if earlier >= 0 else 0.0
