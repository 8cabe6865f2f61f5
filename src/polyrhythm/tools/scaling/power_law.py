"""Power laws y = a x^(-α) through repeated measurements, with bootstrap intervals (after Tay et al., 2022).

`polyrhythm scaling` fits losses by it; anything that extrapolates from small runs can.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from polyrhythm.core.streams import stream
from polyrhythm.errors import CompositionError
from polyrhythm.tools.measuring.line_fit import LineFit, fitted
from polyrhythm.tools.report.estimates import RESAMPLED, inner

Line = tuple[float, float]
"""Where a line starts, and its slope."""

LEAST_SIZES = 3
LEAST_R_SQUARED = 0.9
"""Of a fit that is called a power law."""


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """y = `coefficient` x^(-`alpha`); `low` to `high` is the 95 % interval of α, and R² that of the line on logarithmic axes.

    `draws` are lines of the bootstrap on logarithmic axes, with which predictions get their intervals.
    """

    coefficient: float
    alpha: float
    low: float
    high: float
    r_squared: float
    draws: tuple[Line, ...]

    @property
    def holds(self) -> bool:
        """True if the points lie on the line well enough, and α is told apart from 0."""
        return self.r_squared >= LEAST_R_SQUARED and not self.low <= 0 <= self.high

    def at(self, x: float) -> float:
        """The law's y at `x`."""
        return self.coefficient * math.pow(x, -self.alpha)

    def interval_at(self, x: float) -> tuple[float, float]:
        """The 95 % interval of the law's y at `x`: wider the farther `x` is from what was measured."""
        return inner([math.exp(start + slope * math.log(x)) for start, slope in self.draws])

    def told_apart(self, other: PowerLaw) -> bool:
        """True if the intervals of the two exponents have no value in common."""
        return self.high < other.low or other.high < self.low


def fit_power_law(measured: Mapping[float, Sequence[float]], floor: float = 0.0) -> PowerLaw:
    """The law through `measured`: for each x the y of every repetition, less `floor`, below which y cannot fall.

    The line is fitted to the means of logarithms by least squares. A draw of the bootstrap takes repetitions of each x with replacement,
    and adds a residual of the line, scaled by √(n / (n - 2)) for n sizes: what sizes deviate from a law makes the interval wider, as
    repetitions do. The draws have a fixed seed. Raises CompositionError for fewer than three x, and for y that are not above `floor`.

    Examples:
        >>> law = fit_power_law({1: [8.0], 4: [4.0], 16: [2.0]})
        >>> round(law.alpha, 3), round(law.at(64), 3), law.holds
        (0.5, 1.0, True)
    """
    if len(measured) < LEAST_SIZES:
        raise CompositionError(f"A power law through {len(measured)} sizes fits whatever they are: give {LEAST_SIZES} or more.")
    for x, values in measured.items():
        if x <= 0 or not values or min(values) <= floor:
            raise CompositionError(
                f"The values {list(values)} at {x:g} are not above {floor:g}, and have no logarithm: give a lower floor."
            )
    across = [math.log(x) for x in measured]
    logarithms = [[math.log(value - floor) for value in values] for values in measured.values()]
    heights = [fmean(values) for values in logarithms]
    line = fitted(across, heights)
    draws = _drawn(across, logarithms, line)
    low, high = inner([-slope for _, slope in draws])
    return PowerLaw(math.exp(line.start), -line.slope, low, high, line.r_squared, draws)


def _drawn(across: Sequence[float], logarithms: Sequence[Sequence[float]], line: LineFit) -> tuple[Line, ...]:
    numbers, count = stream(0, "power law"), len(across)
    x, heights = np.asarray(across), np.asarray([fmean(values) for values in logarithms])
    on_line = line.start + line.slope * x
    residuals = np.sqrt(count / (count - 2)) * (heights - on_line)
    again = np.stack(
        [np.asarray(values)[numbers.integers(0, len(values), (RESAMPLED, len(values)))].mean(axis=1) for values in logarithms], axis=1
    )
    moved = on_line + residuals[numbers.integers(0, count, (RESAMPLED, count))] + again - heights
    apart = x - x.mean()
    slopes = moved @ apart / (apart @ apart)
    starts = moved.mean(axis=1) - slopes * x.mean()
    return tuple(zip(starts.tolist(), slopes.tolist(), strict=True))
