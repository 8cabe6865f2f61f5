"""The scale of a metric on which learning curves are about straight in the logarithm of the samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from polyrhythm.core.records.metrics import Target
from polyrhythm.tools.planner.measured import CurvePoint


def scale_of(target: Target, points: Sequence[CurvePoint]) -> Callable[[float], float]:
    """The transform of a metric with such values.

    The error of a metric that is best at 1, such as accuracy, and a loss fall with a power of the samples (Hestness et al., 2017,
    arXiv:1712.00409); another metric is taken to grow with their logarithm.
    """
    values = [target.value, *(point.value for point in points)]
    if target.higher_is_better and max(values) < 1 and min(values) >= 0:
        return lambda value: math.log(1 - value)
    if not target.higher_is_better and min(values) > 0:
        return math.log
    return lambda value: value
