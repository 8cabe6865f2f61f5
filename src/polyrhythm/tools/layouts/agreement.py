"""How well one order agrees with another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations


def kendall(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Kendall's τ-b of two lists of figures of the same things; None where one of them is the same for all (Kendall, 1945).

    Examples:
        >>> kendall([1, 2, 3], [1, 3, 2])
        0.3333333333333333
    """
    agreeing = ties_one = ties_other = pairs = 0
    for (a, b), (c, d) in combinations(list(zip(one, other, strict=True)), 2):
        pairs += 1
        ties_one += a == c
        ties_other += b == d
        if a != c and b != d:
            agreeing += 1 if (a < c) == (b < d) else -1
    scale = math.sqrt((pairs - ties_one) * (pairs - ties_other))
    return agreeing / scale if scale else None
