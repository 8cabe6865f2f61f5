"""When a curve crosses a target: evaluations around the place, and the samples between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import linear_regression

from polyrhythm.core.records.metrics import Target
from polyrhythm.tools.planner.measured import CurvePoint

_EVERY = 6
"""Of the moments of a run one in so many is evaluated; they are 9 % apart."""
_AROUND = 2
"""And so many on each side of the target, since single evaluations lie beside a smooth curve."""


@dataclass(frozen=True, slots=True)
class AroundTarget:
    """Evaluates a few moments over the run, and those around the first that meets the target, which is looked for by halves."""

    target: Target

    def __call__(self, count: int, at: Callable[[int], Mapping[str, float]]) -> None:
        """Choose from the `count` moments those to evaluate, and evaluate them by `at`."""
        places = sorted({*range(count - 1, -1, -_EVERY), 0})
        met = next((place for place in places if self._met_by(at(place))), None)
        if met is None:
            for place in range(max(0, count - 2 * _AROUND), count):
                at(place)
            return
        low, high = max((place for place in places if place < met), default=met), met
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._met_by(at(middle)) else (middle, high)
        for place in range(max(0, high - _AROUND), min(count, high + _AROUND)):
            at(place)

    def _met_by(self, metrics: Mapping[str, float]) -> bool:
        return self.target.metric in metrics and self.target.met_by(metrics[self.target.metric])


def crossing(curve: Sequence[CurvePoint], target: Target) -> float | None:
    """The samples at which a curve meets the target, by a line through the evaluations around it; None where it does not."""
    points = [point for point in curve if point.samples > 0 and math.isfinite(point.value)]
    met = next((place for place, point in enumerate(points) if target.met_by(point.value)), None)
    if met is None:
        return None
    if met == 0:
        return points[0].samples
    near = points[max(0, met - _AROUND) : met + _AROUND]
    line = linear_regression([math.log(point.samples) for point in near], [point.value for point in near])
    if not line.slope:
        return points[met].samples
    logarithm = (target.value - line.intercept) / line.slope
    return min(max(math.exp(logarithm), near[0].samples), near[-1].samples) if abs(logarithm) < 100 else points[met].samples
