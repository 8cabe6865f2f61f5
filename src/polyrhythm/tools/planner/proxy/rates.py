"""The learning rate for each size: the rate at which a model needs the fewest samples falls with its size by a law that small ones show."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

USUAL, APART = 0.25, 0.15
"""Best rates fall with the parameters to this power, give or take: half that of µP for Adam (Yang et al., 2021), whose best rate falls
with the width, and more than large studies find (Kaplan et al., 2020; Bi et al., 2024). It counts as one more observation."""
_NOISE = 0.05
_LEAST_CURVED = 0.02
"""A parabola that is flatter than this, in logarithms, has no best rate that could be told."""
_MOST_OFF = 1.5
"""The vertices of parabolas are believed so far from the best rates that were tried."""
_FAR = 10.0
_STEEPEST = 0.5
"""The exponent of µP; a rate that grew with the size would be far too high for a large model if the small ones have shown it by chance."""

Tried = Mapping[int, Mapping[float, float]]
"""For each number of parameters the samples to the target by learning rate; infinite where it was not reached."""


@dataclass(frozen=True, slots=True)
class RateLaw:
    """The best rate = `rate` × (N / `center`)^(-`kappa`), of N parameters; `curvature` is that of the logarithm of samples around it."""

    rate: float
    center: float
    kappa: float
    curvature: float

    def at(self, parameters: float) -> float:
        """The best rate at so many parameters, in three digits."""
        return float(f"{self.rate * math.pow(parameters / self.center, -self.kappa):.3g}")


def fit_rates(tried: Tried) -> RateLaw:
    """The law through the samples that the base needed at each rate: parabolas of one curvature in the logarithm of the rate.

    Their vertices lie on a line in the logarithm of the parameters, whose slope is drawn towards the usual one. Rates that did not come
    to the target, or needed twice the fewest samples, are left out: parabolas are true near their vertex only.
    """
    points = [
        (math.log(parameters), math.log(rate), math.log(samples), place)
        for place, (parameters, found) in enumerate(sorted(tried.items()))
        for rate, samples in found.items()
        if samples <= 2.0 * min(found.values()) < math.inf
    ]
    n, x, y = (np.asarray([each[k] for each in points]) for k in range(3))
    center, middle = float(n.mean()), float(x.mean())
    best = {parameters: min(found, key=found.__getitem__) for parameters, found in tried.items() if min(found.values()) < math.inf}
    usual = _through(best, center, USUAL)
    sizes = sorted({each[3] for each in points})
    if len(points) < len(sizes) + 2:
        return RateLaw(usual, math.exp(center), USUAL, 0.0)
    own = np.asarray([[float(each[3] == size) for size in sizes] for each in points])
    away, apart = x - middle, n - center
    curvature, level, slope = _solve(own, away, apart, y)
    if curvature < _LEAST_CURVED:
        return RateLaw(usual, math.exp(center), USUAL, 0.0)
    kappa = _drawn_to_usual(slope / (2 * curvature), curvature, apart, away)
    near = _through(best, center, kappa)
    rate = math.exp(middle - level / (2 * curvature)) if abs(level) < 2 * curvature * _FAR else near
    return RateLaw(min(max(rate, near / _MOST_OFF), near * _MOST_OFF, _bound(tried, center, kappa)), math.exp(center), kappa, curvature)


def _bound(tried: Tried, center: float, kappa: float) -> float:
    """The rate at the `center` of a line of that slope that exceeds at no size what came to the target, where more did not."""
    bounds = [
        max(came) * math.exp(kappa * (math.log(parameters) - center))
        for parameters, found in tried.items()
        if (came := [rate for rate, samples in found.items() if samples < math.inf]) and max(came) < max(found)
    ]
    return min(bounds, default=math.inf)


def _through(best: Mapping[int, float], center: float, kappa: float) -> float:
    """The rate at the `center` of a line of that slope through the best rates."""
    return math.exp(float(np.mean([math.log(rate) + kappa * (math.log(parameters) - center) for parameters, rate in best.items()])))


def _solve(own: np.ndarray, away: np.ndarray, apart: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """(curvature, level, slope) of y = own + curvature × away² + (level + slope × apart) × away."""
    design = np.column_stack([own, away**2, away, away * apart])
    found = np.linalg.lstsq(design, y, rcond=None)[0]
    return float(found[-3]), float(found[-2]), float(found[-1])


def _drawn_to_usual(kappa: float, curvature: float, apart: np.ndarray, away: np.ndarray) -> float:
    """A weighted mean of the slope that was found and the usual one, by how well the points tell it."""
    told = (2 * curvature / _NOISE) ** 2 * float(((away * apart) ** 2).sum())
    known = 1 / APART**2
    return min(_STEEPEST, max(0.0, (told * kappa + known * USUAL) / (told + known)))


def best_factor(samples: Mapping[float, float]) -> float:
    """The factor of the rate with the fewest `samples`, by the parabola through the best and its two neighbours; 1 where none came
    there."""
    reached = {factor: each for factor, each in samples.items() if each < math.inf}
    if not reached:
        return 1.0
    best = min(reached, key=reached.__getitem__)
    ordered = sorted(reached)
    place = ordered.index(best)
    if not 0 < place < len(ordered) - 1:
        return best
    near = ordered[place - 1 : place + 2]
    square, line, _ = np.polyfit([math.log(each) for each in near], [math.log(reached[each]) for each in near], 2)
    vertex = math.exp(-line / (2 * square)) if square > 0 else best
    return float(min(max(vertex, near[0]), near[-1]))
