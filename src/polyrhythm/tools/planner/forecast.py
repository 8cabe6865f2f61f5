"""Predictions from a few seeds: a value, and the bounds between which the next run should lie. The planner makes them for its choices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

import msgspec

from polyrhythm.tools.planner.products import product

_STUDENT = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Student's distribution leaves a twentieth outside of so many deviations, with 1, 2, ... degrees of freedom.

Not a tenth: the candidate was chosen because it did well, and candidates do not all differ equally between seeds.
"""
_SIMULATED = 0.1
"""Virtual time and measured time differ by about this part, where the machines were calibrated; docs/benchmarks.md has the figures."""
_SEEDS, _COUNTED = 0.25, 4
"""The deviation of a time's logarithm between seeds before any were run, and the degrees of freedom that it counts for."""
_GRID = 0.05
"""And at the least: evaluations are 9 % apart, so that equal times need not be equal."""
_EXTRAPOLATED = 0.5
"""And where the target was not reached, but an early curve extrapolated."""


class Interval(msgspec.Struct, frozen=True):
    """A prediction, and the bounds between which nine of ten runs should lie."""

    low: float
    middle: float
    high: float

    def times(self, factor: float) -> Interval:
        """The interval of another quantity that is so many times as large."""
        return Interval(*(product(each, factor) for each in (self.low, self.middle, self.high)))


def deviation(values: Mapping[str, Sequence[float]]) -> tuple[float, int]:
    """The deviation of the logarithm between seeds, of all groups together and of what is usual, and its degrees of freedom."""
    groups = [[math.log(each) for each in group if each > 0] for group in values.values()]
    freedom = _COUNTED + sum(len(group) - 1 for group in groups if len(group) > 1)
    squares = _COUNTED * _SEEDS**2 + sum((each - sum(group) / len(group)) ** 2 for group in groups for each in group)
    return max(_GRID, math.sqrt(squares / freedom)), freedom


def forecast(values: Sequence[float], spread: float, freedom: int) -> Interval:
    """The interval for the next seed, from the `values` of some: Student's bounds for a new observation, and the simulator's own error.

    It contains all `values`.
    """
    middle, count = median(values), len(values)
    quantile = _STUDENT[min(freedom, len(_STUDENT)) - 1]
    width = math.hypot(quantile * spread * math.sqrt(1 + 1 / count), _SIMULATED)
    return Interval(min(middle * math.exp(-width), *values), middle, max(middle * math.exp(width), *values))


def extrapolated(value: float) -> Interval:
    """The interval around a value from a curve that did not come to the target."""
    width = 2 * _EXTRAPOLATED
    return Interval(value * math.exp(-width), value, value * math.exp(width))
