"""What a run's curve says of its samples to the target, and a race between several curves."""

from __future__ import annotations

import math
from collections.abc import Sequence

from polyrhythm.core.records.metrics import Target
from polyrhythm.tools.planner.learning_curves import LearningCurves, Needed
from polyrhythm.tools.planner.measured import CurvePoint, TrainedRun

_FURTHEST = 64.0
"""No curve is believed further than so many times its samples."""
_USUAL, _BROAD = 4.0, 1.5
"""Beforehand a run is taken to need so many times the samples that it has had, with this deviation of the logarithm."""


def samples_needed(training: TrainedRun, target: Target) -> float:
    """Samples of all workers to the target: those that were needed, or the middle of what the curve so far tells, whatever others did.

    Infinite where the metric has not moved towards the target, and where it would take too many times the samples of the run.
    """
    if training.end is not None:
        return training.end.samples
    curves, taken = LearningCurves(target), training.curve[-1].samples if training.curve else 0.0
    if taken <= 0 or curves.progress(training.curve) <= 0:
        return math.inf
    needed = math.exp(curves.needed(training.curve, taken, Needed(math.log(_USUAL * taken), _BROAD)).mean)
    return needed if needed <= _FURTHEST * taken else math.inf


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
