"""Workers on a virtual grid, and the groups that share a line of it."""

from __future__ import annotations

import math
from functools import lru_cache


@lru_cache(maxsize=64)
def sides(workers: int, dimensions: int) -> tuple[int, ...]:
    """The sides of the grid of so many dimensions, as equal as they can be: it has a cell for each worker, and few more.

    Examples:
        >>> sides(16, 2), sides(8, 3), sides(6, 2), sides(5, 2)
        ((4, 4), (2, 2, 2), (3, 2), (3, 2))
    """
    found: list[int] = []
    for left in range(dimensions, 0, -1):
        side = max(1, math.ceil(round(workers ** (1 / left), 9)))
        found.append(side)
        workers = math.ceil(workers / side)
    return tuple(found)


def line(rank: int, axis: int, workers: int, dimensions: int) -> tuple[int, ...]:
    """The ranks, in order, that share all coordinates with `rank` but that on `axis`; where a cell has no worker there is none.

    Examples:
        >>> line(4, 0, 6, 2), line(4, 1, 6, 2), line(2, 1, 5, 2)
        ((3, 4, 5), (1, 4), (2,))
    """
    shape = sides(workers, dimensions)
    stride = math.prod(shape[:axis])
    first = rank - rank // stride % shape[axis] * stride
    return tuple(cell for k in range(shape[axis]) if (cell := first + k * stride) < workers)
