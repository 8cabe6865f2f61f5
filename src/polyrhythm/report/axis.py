"""The labels of a logarithmic axis: Vega would write all of a decade's, one over the other."""

from __future__ import annotations

import math
from collections.abc import Sequence

_MOST_TICKS = 6


def decades(values: Sequence[float]) -> list[float]:
    """Powers of ten among positive `values`, at most about six; where that leaves fewer than three, 1, 2 and 5 of each as well."""
    least, most = min(values) / 1.15, max(values) * 1.15
    low, high = math.ceil(math.log10(least) - 1e-9), math.floor(math.log10(most) + 1e-9)
    ticks = [10.0**power for power in range(low, high + 1, max(1, (high - low) // _MOST_TICKS + 1))]
    if len(ticks) >= 3:
        return ticks
    return [m * 10.0**p for p in range(low - 1, high + 1) for m in (1, 2, 5) if least <= m * 10.0**p <= most]
