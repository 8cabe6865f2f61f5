"""The parts of a vector that workers and spare machines sum together, and the order in which they add."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from polyrhythm.errors import CompositionError


def weights(workers: int, spares: int) -> list[int]:
    """The share of a vector that each machine sums, the workers first, in units of 1 / their sum (Jiang et al., 2020, section 4.1).

    A worker sums (n - k) / (n² + k n - 2 k) of it and a spare machine 2 (n - 1) / (n² + k n - 2 k): then all lines are busy for the same
    time. Raises CompositionError for more spares than workers: the workers' own lines are then what limits.
    """
    if spares > workers:
        raise CompositionError(
            f"{spares} spare machines for {workers} workers gain nothing over {workers}: each worker sends and receives the whole vector "
            f"even so. Give at most as many as there are workers."
        )
    if workers == 1:
        return [1] + [0] * spares
    return [workers - spares] * workers + [2 * (workers - 1)] * spares


def sizes(numel: int, shares: Sequence[int]) -> list[int]:
    """The elements of each part of `numel`: proportional, the rest one by one from the first on, as torch.tensor_split has it."""
    whole = sum(shares)
    parts = [numel * share // whole for share in shares]
    left = numel - sum(parts)
    for k in (k for k, share in enumerate(shares) if share):
        if not left:
            break
        parts[k] += 1
        left -= 1
    return parts


@dataclass(frozen=True, slots=True)
class Stretch:
    """Elements from `start` on of a vector of `numel`."""

    start: int
    numel: int

    def sum(self, values: Sequence[Tensor]) -> Tensor:
        """The sum of what each rank has of these elements, in the order in which `Direct` and `Ring` add: the same bits anywhere.

        They cut the vector into one part for each rank, and begin part k with rank k.
        """
        ranks, here = len(values), values[0].numel()
        total = torch.empty_like(values[0])
        base, extra = divmod(self.numel, ranks)
        for first in range(ranks):
            low = max(0, first * base + min(first, extra) - self.start)
            high = min(here, (first + 1) * base + min(first + 1, extra) - self.start)
            if low < high:
                part = values[first][low:high]
                for step in range(1, ranks):
                    part = part + values[(first + step) % ranks][low:high]
                total[low:high] = part
        return total
