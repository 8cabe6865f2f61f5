"""The laws that carry samples to a target, and the penalties of methods, from small models to a large one, with bootstrap intervals.

For a fixed loss, larger models need fewer samples, but never fewer than some number: L = (a / N)^α + (b / D)^β for a model of N
parameters and D samples (Kaplan et al., 2020; Hoffmann et al., 2022). A power law without that number promises too much of a large model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyrhythm.core.streams import stream
from polyrhythm.errors import CompositionError
from polyrhythm.tools.report.estimates import RESAMPLED
from polyrhythm.tools.scaling.power_law import LEAST_SIZES

Numbers = NDArray[np.float64]

EXPONENTS = np.exp(np.linspace(math.log(0.2), math.log(2.0), 60))
"""Of a law with a least number."""
USUAL, APART = math.log(0.7), 0.5
"""Logarithms of exponents lie around this one, and deviate by so much: 0.34 over 0.28 and the like in Hoffmann et al., 2022, and more for
small targets. It counts as one more observation."""
NOISE = 0.05
"""The least deviation of samples to a target that a further run is expected to have, as a part of them: evaluations are 9 % apart."""
_LEAST_NOISE = 0.005
DRIFT = 0.08
"""By how much the exponent of a penalty deviates from 0 where nothing is known of it; it counts as one more observation. The batch from
which on more samples are needed depends on the loss, and hardly on the size of a model (Kaplan et al., 2020, section 5.1)."""


@dataclass(frozen=True, slots=True)
class SampleLaw:
    """Samples to the target = `least` + `coefficient` × N^(-`alpha`), of N parameters.

    `draws` are (least, coefficient, alpha) of the bootstrap, `scatter` the deviation of one run's logarithm from the law.
    """

    least: float
    coefficient: float
    alpha: float
    scatter: float
    draws: Numbers

    def at(self, parameters: float) -> float:
        """The law's samples at so many parameters."""
        return self.least + self.coefficient * math.pow(parameters, -self.alpha)

    def drawn_at(self, parameters: float) -> Numbers:
        """The same of each draw."""
        found: Numbers = self.draws[:, 0] + self.draws[:, 1] * parameters ** -self.draws[:, 2]
        return found


@dataclass(frozen=True, slots=True)
class PenaltyLaw:
    """What a method needs over what the base needs, `middle` × (N / `center`)^`slope`; `draws` are (log middle, slope) of the bootstrap."""

    middle: float
    slope: float
    center: float
    draws: Numbers

    def at(self, parameters: float) -> float:
        """The law's penalty at so many parameters."""
        return self.middle * math.pow(parameters / self.center, self.slope)

    def drawn_at(self, parameters: float) -> Numbers:
        """The same of each draw."""
        found: Numbers = np.exp(self.draws[:, 0] + self.draws[:, 1] * math.log(parameters / self.center))
        return found

    @staticmethod
    def none() -> PenaltyLaw:
        """The penalty of the base itself: 1, whatever the size."""
        return PenaltyLaw(1.0, 0.0, 1.0, np.zeros((RESAMPLED, 2)))

    @property
    def interval(self) -> tuple[float, float]:
        """Bounds of the exponent, with 95 % of the draws between them."""
        low, high = np.quantile(self.draws[:, 1], (0.025, 0.975))
        return float(low), float(high)


def fit_samples(measured: Mapping[int, Sequence[float]]) -> SampleLaw:
    """The law through the samples that runs needed, for each number of parameters those of every seed.

    Relative errors are least squared for each exponent of a grid; the exponent with the least is taken, and far ones count as unlikely. A
    draw of the bootstrap takes seeds of each size with replacement, and moves sizes as they deviate from the law. Raises CompositionError
    for fewer than three sizes.

    Examples:
        >>> law = fit_samples({n: [500 + 2e6 / n] for n in (1000, 2000, 4000, 8000)})
        >>> round(law.at(64000)), round(law.at(8000))
        (506, 746)
    """
    _refuse_few(measured)
    sizes = np.asarray(sorted(measured), dtype=float)
    runs = [np.log(np.asarray(measured[int(each)], dtype=float)) for each in sizes]
    heights = np.asarray([each.mean() for each in runs])
    noise = _noise(runs)
    fitted = _fit(sizes, heights[None, :], noise)[0]
    residuals = heights - np.log(fitted[0] + fitted[1] * sizes ** -fitted[2])
    freedom = max(1, len(sizes) - 2)
    deviation = float(np.sqrt((residuals**2).sum() / freedom))
    moved = heights + _again(runs, "samples") + _normal(len(sizes), "sizes") * max(deviation, noise)
    scatter = max(NOISE, noise * math.sqrt(min(map(len, runs))))
    return SampleLaw(float(fitted[0]), float(fitted[1]), float(fitted[2]), scatter, _fit(sizes, moved, noise))


def fit_penalty(measured: Mapping[int, Sequence[float]], name: str) -> PenaltyLaw:
    """The law through ratios of samples, for each number of parameters those of every seed. `name` is that of its random numbers.

    The slope on logarithmic axes is drawn towards 0 by one observation of DRIFT: through one size it is 0, give or take that. Raises
    CompositionError where there are no ratios.

    Examples:
        >>> law = fit_penalty({1000: [2.0, 2.0], 2000: [2.0, 2.0], 4000: [2.0, 2.0]}, "halves")
        >>> round(law.at(32000), 3)
        2.0
    """
    if not measured:
        raise CompositionError(f"{name} has no size at which it came to the target, so that it has no penalty.")
    sizes = np.log(np.asarray(sorted(measured), dtype=float))
    runs = [np.log(np.asarray(measured[each], dtype=float)) for each in sorted(measured)]
    heights, apart = np.asarray([each.mean() for each in runs]), sizes - sizes.mean()
    noise = _noise(runs)
    ((_, own),) = _line(apart, heights[None, :], (noise / DRIFT) ** 2)
    noise = max(noise, float(np.std(heights - own * apart)))
    tied = (noise / DRIFT) ** 2
    ((start, slope),) = _line(apart, heights[None, :], tied)
    moved = heights + _again(runs, name) + _normal(len(sizes), f"{name}, sizes") * noise
    draws = _line(apart, moved, tied)
    draws[:, 1] += _normal(1, f"{name}, slope")[:, 0] * noise * math.sqrt(tied) / (float(apart @ apart) + tied)
    return PenaltyLaw(math.exp(start), float(slope), math.exp(sizes.mean()), draws)


def _refuse_few(measured: Mapping[int, Sequence[float]]) -> None:
    if len(measured) < LEAST_SIZES:
        raise CompositionError(f"A law through {len(measured)} sizes fits whatever they are: give {LEAST_SIZES} or more.")


def _fit(sizes: Numbers, heights: Numbers, noise: float) -> Numbers:
    """(least, coefficient, exponent) for each row of logarithms of samples, which deviate by so much."""
    best = np.full(len(heights), np.inf)
    found = np.zeros((len(heights), 3))
    center = float(np.exp(np.log(sizes).mean()))
    for exponent in EXPONENTS:
        shape = (sizes / center) ** -exponent
        least, times = _not_negative(shape, np.exp(-heights))
        predicted = np.log(np.maximum(least[:, None] + times[:, None] * shape, 1e-300))
        errors = ((predicted - heights) ** 2).sum(axis=1) + (noise * (math.log(exponent) - USUAL) / APART) ** 2
        better = errors < best
        best = np.where(better, errors, best)
        found[better] = np.stack([least, times * center**exponent, np.full(len(heights), exponent)], axis=1)[better]
    return found


def _not_negative(shape: Numbers, weights: Numbers) -> tuple[Numbers, Numbers]:
    """The `least` and `times`, neither below 0, of least + times × shape ≈ 1 / weights, by relative errors, for each row of weights."""
    a, b, c = (weights**2).sum(1), (weights**2 * shape).sum(1), (weights**2 * shape**2).sum(1)
    u, v = weights.sum(1), (weights * shape).sum(1)
    determinant = a * c - b * b
    least, times = (c * u - b * v) / determinant, (a * v - b * u) / determinant
    only_times, only_least = v / c, u / a
    negative, falling = least < 0, times < 0
    least = np.where(negative, 0.0, np.where(falling, only_least, least))
    times = np.where(negative, only_times, np.where(falling, 0.0, times))
    return least, times


def _line(apart: Numbers, heights: Numbers, tied: float) -> Numbers:
    """(start, slope) for each row, at the middle of the sizes; the slope is tied to 0 by so much."""
    slopes = heights @ apart / (float(apart @ apart) + tied)
    return np.stack([heights.mean(axis=1), slopes], axis=1)


def _noise(runs: Sequence[Numbers]) -> float:
    """The deviation of the mean of a size's logarithms, from that between seeds of all sizes; the usual one where each has one seed."""
    freedom = sum(len(each) - 1 for each in runs)
    squares = sum(float(((each - each.mean()) ** 2).sum()) for each in runs)
    return max(_LEAST_NOISE, math.sqrt(squares / freedom) if freedom else NOISE) / math.sqrt(min(map(len, runs)))


def _again(runs: Sequence[Numbers], name: str) -> Numbers:
    """By how much the means of runs differ from theirs when runs are drawn anew, with replacement: (RESAMPLED, sizes)."""
    numbers = stream(0, f"bootstrap of {name}")
    return np.stack([each[numbers.integers(0, len(each), (RESAMPLED, len(each)))].mean(axis=1) - each.mean() for each in runs], axis=1)


def _normal(count: int, name: str) -> Numbers:
    return stream(0, f"normal numbers of {name}").standard_normal((RESAMPLED, count))
