"""Repeated measurements in few numbers: the median, a bootstrap interval of it, and the coefficient of variation.

Studies, fits of scaling laws and the reports of reproductions use the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

import msgspec

from polyrhythm.core.rng import stream
from polyrhythm.tools.report.repeats import spread

LEAST_REPETITIONS = 5
"""Fewer values have no interval but their range."""
RESAMPLED = 2000


class MedianEstimate(msgspec.Struct, frozen=True):
    """The `median` of `count` values, its 95 % interval from `low` to `high`, and their coefficient of `variation`.

    The last is the standard deviation as a part of the mean; of one value, or of a mean of 0, it is not known.
    """

    count: int
    median: float
    low: float
    high: float
    variation: float | None

    def overlaps(self, other: MedianEstimate) -> bool:
        """True if the intervals have a value in common: the two are not told apart."""
        return self.low <= other.high and other.low <= self.high


def estimate(values: Sequence[float]) -> MedianEstimate:
    """The estimate of finite `values`, of which there is one at least."""
    low, high = median_interval(values)
    mean = fmean(values)
    variation = stdev(values) / abs(mean) if len(values) > 1 and mean else None
    return MedianEstimate(len(values), spread(values).median, low, high, variation)


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % bootstrap interval of the median; of fewer than five values, the least and the greatest. The draw has a fixed seed."""
    if len(values) < LEAST_REPETITIONS or not all(map(math.isfinite, values)):
        return min(values), max(values)
    draw = stream(0, "bootstrap")
    return inner([spread([values[k] for k in draw.integers(0, len(values), len(values))]).median for _ in range(RESAMPLED)])


def inner(resampled: Sequence[float]) -> tuple[float, float]:
    """The bounds of the inner 95 % of `resampled`, of which there are a few hundred at least."""
    ranked = sorted(resampled)
    return ranked[int(0.025 * len(ranked))], ranked[int(0.975 * len(ranked)) - 1]
