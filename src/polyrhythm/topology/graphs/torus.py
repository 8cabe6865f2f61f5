"""A torus: a grid whose rows and columns close into rings."""

from __future__ import annotations

import math
from dataclasses import dataclass

from polyrhythm.core.kernel.group import Group


@dataclass(frozen=True, slots=True)
class Torus:
    """The neighbours in a grid of rows that close into rings, as do its columns: up to four, at every step (Lian et al., 2017).

    The grid is as nearly square as P allows; of a prime P it is a ring.
    """

    def check(self, workers: int) -> None:
        """Accept any number of workers."""

    def neighbours(self, step: int, group: Group) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Left, right, above and below, both ways; fewer where some are the same."""
        rows = next(count for count in range(math.isqrt(group.size), 0, -1) if group.size % count == 0)
        columns = group.size // rows
        row, column = divmod(group.rank, columns)
        in_row = {row * columns + (column + turn) % columns for turn in (-1, 1)}
        in_column = {(row + turn) % rows * columns + column for turn in (-1, 1)}
        both = tuple(sorted((in_row | in_column) - {group.rank}))
        return both, both
