"""The ranges of a vector of weights, each of which fits a message and has an owner whose weights are the result."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from polyrhythm.core.kernel.view import View


class WeightRanges:
    """Nearly equal ranges of a vector of `numel` elements, at least one for each of `members`, as far as there are elements.

    Each range belongs to a member, and if that is lost, to the next one in rank.
    """

    def __init__(self, numel: int, most: int, members: Sequence[str]) -> None:
        count = min(numel, max(math.ceil(numel / most), len(members)))
        self.bounds = [(numel * k // count, numel * (k + 1) // count) for k in range(count)]
        self.members = members

    def __len__(self) -> int:
        return len(self.bounds)

    def of(self, vector: Tensor, number: int) -> Tensor:
        """The range as a view of `vector` (numel,)."""
        begin, end = self.bounds[number]
        return vector[begin:end]

    def owner(self, number: int, view: View) -> str:
        """The member whose weights of that range are the result."""
        order = [self.members[(number + step) % len(self.members)] for step in range(len(self.members))]
        return next(name for name in order if view.present(name))

    def owned(self, name: str, view: View) -> list[int]:
        """The ranges that belong to a member."""
        return [number for number in range(len(self)) if self.owner(number, view) == name]
