"""Predicts the further cost of a run until its target, from its early curve."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import StatisticsError, linear_regression

from polyrhythm.core.records.metrics import Target
from polyrhythm.tools.planner.measured import CurvePoint, TrainedRun

_FURTHEST = 64.0
"""No curve is believed further than so many times its samples."""
_LATER_PART = 0.25
"""A curve is followed from this part of its samples on: the beginning of training says little about its later course."""


def samples_needed(training: TrainedRun, target: Target) -> float:
    """Samples of all workers to the target: those that were needed, or a power law through the later part of the curve.

    The error of a metric that is best at 1, such as accuracy, and a loss fall with a power of the samples (Hestness et al., 2017,
    arXiv:1712.00409); another metric is taken to grow with their logarithm. Infinite where the curve does not lead there.
    """
    if training.end is not None:
        return training.end.samples
    curve = [point for point in training.curve if math.isfinite(point.value) and point.samples > 0]
    later = [point for point in curve if point.samples >= _LATER_PART * curve[-1].samples] if curve else []
    shown = error_of(target, later)
    try:
        line = linear_regression([math.log(point.samples) for point in later], [shown(point.value) for point in later])
    except (StatisticsError, ValueError):
        return math.inf
    towards = shown(target.value) - shown(later[-1].value)
    if line.slope == 0 or towards / line.slope < 0:
        return math.inf
    factor = math.exp(min(towards / line.slope, math.log(2 * _FURTHEST)))
    return later[-1].samples * factor if factor <= _FURTHEST else math.inf


def error_of(target: Target, points: Sequence[CurvePoint]) -> Callable[[float], float]:
    """A transform of the metric that is about linear in the logarithm of the samples."""
    values = [target.value, *(point.value for point in points)]
    if target.higher_is_better and max(values) < 1 and min(values) >= 0:
        return lambda value: math.log(1 - value)
    if not target.higher_is_better and min(values) > 0:
        return math.log
    return lambda value: value


class Race:
    """Several curves up to the same samples: how many samples the best of them need to a value, and to the target."""

    def __init__(self, curves: Sequence[Sequence[CurvePoint]], target: Target) -> None:
        self.target = target
        points = sorted((point for curve in curves for point in curve if math.isfinite(point.value)), key=lambda point: point.samples)
        self.front: list[CurvePoint] = []
        for point in points:
            if point.samples > 0 and (not self.front or self._better(point.value, self.front[-1].value)):
                self.front.append(point)

    @property
    def needed(self) -> float:
        """Samples to the target; as many as the longest curve has, where none came there."""
        reached = [point.samples for point in self.front if self.target.met_by(point.value)]
        return reached[0] if reached else max((point.samples for point in self.front), default=1.0)

    def undecided(self, curve: Sequence[CurvePoint]) -> bool:
        """True if nothing has changed yet: a system that exchanges after many steps has no result before."""
        return len({point.value for point in curve}) <= 1

    def efficiency(self, curve: Sequence[CurvePoint]) -> float:
        """The part of its samples within which the best of all come to its last value; 0 where it has none that is finite."""
        last = curve[-1] if curve else None
        if last is None or not math.isfinite(last.value) or not last.samples:
            return 0.0
        as_good = [point.samples for point in self.front if not self._better(last.value, point.value)]
        return min(1.0, as_good[0] / last.samples) if as_good else 1.0

    def _better(self, one: float, other: float) -> bool:
        return one > other if self.target.higher_is_better else one < other
