"""A posterior of the samples that a run needs to the target, from its curve so far.

Domhan, Springenberg and Hutter (IJCAI 2015) weigh a family of parametric curves by what was seen; so is it done here, on a grid, so that
equal curves give equal answers. Nothing is ruled out by it: where little was seen, the posterior is as broad as what is known beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyrhythm.core.records.metrics import Target
from polyrhythm.tools.planner.measured import CurvePoint
from polyrhythm.tools.planner.metric_scale import scale_of

Array = NDArray[np.float64]

_AHEAD = 256.0
"""A run may need so many times the samples that it has had."""
_FINENESS = 64
_ONSETS = (0.3, 3.0, 30.0, 300.0)
_BENDS = (0.5, 1.0, 2.0, 4.0)
"""Curves bend so: below 1 they rise at once, above 1 late."""
_NOISE = 0.06
"""The deviation of a point from its curve, as a part of the way to the target, before any curve is known whole."""
_LEAST_NOISE = 0.02
_APART = 0.5
"""Points nearer than so many e-folds of samples do not count as two: what moves one moves the next."""
_BROAD = 1.5
"""The deviation of the logarithm of the samples where nothing else is known."""
_NOTHING = 1e-3
"""The least precision of what a run says."""
_TRUSTED = 4.0
"""Shapes that were not seen count like so many curves."""


@dataclass(frozen=True, slots=True)
class Needed:
    """The logarithm of the samples to the target: its `mean`, and its `deviation`."""

    mean: float
    deviation: float

    def without(self, prior: Needed) -> Needed:
        """What the run itself says, if `prior` was known beforehand: next to nothing where it is no sharper."""
        own, before = 1 / self.deviation**2, 1 / prior.deviation**2
        if own - before <= _NOTHING:
            return Needed(self.mean, math.sqrt(1 / _NOTHING))
        return Needed((self.mean * own - prior.mean * before) / (own - before), math.sqrt(1 / (own - before)))


class LearningCurves:
    """The family of curves: progress to the target (0 untrained, 1 there) after s of N samples is (log(1 + s r / N) / log(1 + r))^c.

    r says how much of the progress comes early, c how late it begins. `whole` are curves of runs that came to the target: they say which
    shapes the JOB has, and how far points lie from their curve.
    """

    def __init__(self, target: Target, whole: Iterable[Sequence[CurvePoint]] = ()) -> None:
        self.target = target
        self.onsets, self.bends = (np.array(each, dtype=float) for each in zip(*((r, c) for r in _ONSETS for c in _BENDS), strict=True))
        self.noise = _NOISE
        shapes = np.zeros(len(self.onsets))
        errors = []
        for samples, progress, weights in filter(None, map(self._seen, whole)):
            here = self._squares(samples[:-1], progress[:-1], weights[:-1], np.array([samples[-1]]))[:, 0]
            shapes += _normal(-here / (2 * _NOISE**2))
            errors.append((float(here.min()), float(weights[:-1].sum())))
        self.shapes = (shapes + _TRUSTED / len(shapes)) / (shapes.sum() + _TRUSTED)
        if counted := sum(weight for _, weight in errors):
            squares = (sum(error for error, _ in errors) + _TRUSTED * _NOISE**2) / (counted + _TRUSTED)
            self.noise = max(_LEAST_NOISE, math.sqrt(squares))

    def needed(self, curve: Sequence[CurvePoint], taken: float, prior: Needed) -> Needed:
        """The samples to the target of a run that has not come there after `taken` samples."""
        first = math.log(max(taken, 1.0))
        places = np.linspace(first, max(first + math.log(_AHEAD), prior.mean + prior.deviation), _FINENESS)
        density = -((places - prior.mean) ** 2) / (2 * prior.deviation**2)
        seen = self._seen(curve)
        if seen is not None:
            squares = self._squares(*seen, np.exp(places))
            shaped = np.log(self.shapes)[:, None] - squares / (2 * self.noise**2)
            top = shaped.max(0)
            density = density + top + np.log(np.exp(shaped - top).sum(0))
        weights = _normal(density)
        mean = float(weights @ places)
        return Needed(mean, max(0.05, math.sqrt(float(weights @ (places - mean) ** 2))))

    def progress(self, curve: Sequence[CurvePoint]) -> float:
        """The part of the way to the target that the curve has come; 0 where it says nothing."""
        seen = self._seen(curve)
        return 0.0 if seen is None else float(seen[1][-1])

    def _seen(self, curve: Sequence[CurvePoint]) -> tuple[Array, Array, Array] | None:
        """Samples, progress and weights of the points of a curve; None where it says nothing."""
        points = [point for point in curve if math.isfinite(point.value)]
        if len(points) < 2:
            return None
        shown = scale_of(self.target, points)
        start, goal = shown(points[0].value), shown(self.target.value)
        if (later := [point for point in points[1:] if point.samples > 0]) and start != goal:
            samples = np.array([point.samples for point in later])
            progress = np.array([min(1.5, max(-1.0, (shown(point.value) - start) / (goal - start))) for point in later])
            apart: Array = np.diff(np.log(samples), prepend=math.log(samples[0]) - _APART)
            return samples, progress, np.clip(apart / _APART, 0.05, 1.0)
        return None

    def _squares(self, samples: Array, progress: Array, weights: Array, needed: Array) -> Array:
        """The weighted squares of the distance from the curves (shapes, needed) to the points."""
        part = samples[None, None, :] / needed[None, :, None]
        onset, bend = self.onsets[:, None, None], self.bends[:, None, None]
        way: Array = (np.log1p(part * onset) / np.log1p(onset)) ** bend
        squares: Array = ((progress - way) ** 2 * weights).sum(-1)
        return squares


def broad(samples: float) -> Needed:
    """What is known of a JOB of so many samples before anything was run."""
    return Needed(math.log(max(samples, 1.0)), _BROAD)


def _normal(density: Array) -> Array:
    weights: Array = np.exp(density - density.max())
    weights /= weights.sum()
    return weights
