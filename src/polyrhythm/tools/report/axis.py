"""The labels of a logarithmic axis: Vega would write all of a decade's, one over the other."""

from __future__ import annotations

import math
from collections.abc import Sequence

_MOST_TICKS = 6
_FEWEST_TICKS = 3


def decades(values: Sequence[float]) -> list[float]:
    """Powers of ten among positive `values`, at most about six; else 1, 2 and 5 times these; else multiples of a step: three or more."""
    least, most = min(values) / 1.15, max(values) * 1.15
    low, high = math.ceil(math.log10(least) - 1e-9), math.floor(math.log10(most) + 1e-9)
    ticks = [10.0**power for power in range(low, high + 1, max(1, (high - low) // _MOST_TICKS + 1))]
    if len(ticks) >= _FEWEST_TICKS:
        return ticks
    ticks = [m * 10.0**p for p in range(low - 1, high + 1) for m in (1, 2, 5) if least <= m * 10.0**p <= most]
    return ticks if len(ticks) >= _FEWEST_TICKS else _multiples(min(values), max(values))


def _multiples(least: float, most: float) -> list[float]:
    """Those between the two of 1, 2 or 5 times a power of ten, the largest of these that has three; none where the two are equal."""
    if least == most:
        return []
    power = math.floor(math.log10(most - least))
    for step in (m * 10.0**p for p in (power, power - 1) for m in (5, 2, 1)):
        places = range(math.ceil(least / step - 1e-9), math.floor(most / step + 1e-9) + 1)
        if len(places) >= _FEWEST_TICKS:
            break
    return [each * step for each in places]
