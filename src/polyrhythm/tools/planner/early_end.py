"""The end of a run before its last step: its first worker has met the target, or will hardly meet it in time. A task of the search looks
now and then, with the function that the JOB evaluates with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from time import monotonic
from typing import Any

from polyrhythm.core.records.metrics import Target
from polyrhythm.tools.planner.learning_curves import LearningCurves, Needed
from polyrhythm.tools.planner.measured import CurvePoint

_FIRST = 6
_AGAIN = 1.15
_LOOKING = 0.15
"""The first look is after a few steps, and each further one after so many times the steps, but looks take this part of a run at most."""
_POINTS = 3
"""After so few points a curve says nothing."""
_HOPELESS = 0.1
"""A run ends where it would come to the target in time with a smaller probability."""


@dataclass(frozen=True, slots=True)
class Prospect:
    """What is believed of a run: `curves` of the JOB, what it `needs`, and the `most` samples with which it has to come to the target.

    It has `least` samples in any case: more than a run before it that ended early.
    """

    curves: LearningCurves
    needs: Needed
    most: float
    least: float = 0.0

    def is_hopeless(self, curve: list[CurvePoint]) -> bool:
        """True if a curve that has not come to the target yet will hardly do so in time."""
        if len(curve) <= _POINTS or curve[-1].samples < self.least:
            return False
        found = self.curves.needed(curve, curve[-1].samples, self.needs)
        return NormalDist(found.mean, found.deviation).cdf(math.log(self.most)) < _HOPELESS


@dataclass(slots=True)
class EarlyEnd:
    """Looks at worker 0 of a run, whose workers together have `per_step` samples in a step; without a `prospect` only for the target.

    The untrained model is at `untrained`, where that is known, and a look takes about `seconds` by the clock. All workers have taken
    `taken` samples by now; where nobody says so, each has taken the steps of worker 0.
    """

    target: Target
    per_step: float
    prospect: Prospect | None = None
    untrained: float | None = None
    seconds: float = 0.0
    taken: float = 0.0
    met: bool = False
    hopeless: bool = False
    _next: int = _FIRST
    _curve: list[CurvePoint] = field(default_factory=list)
    _looked: float = 0.0
    _began: float = field(default_factory=monotonic)

    def __post_init__(self) -> None:
        if self.untrained is None:
            self._next = 0
        else:
            self._curve.append(CurvePoint(0.0, 0.0, 0.0, self.untrained))

    def is_due(self, clock: int) -> bool:
        """True if it should look after so many steps."""
        if clock < self._next or self.met or self.hopeless:
            return False
        return not clock or self._looked + self.seconds <= _LOOKING * (monotonic() - self._began)

    def look(self, clock: int, measure: Callable[[], Mapping[str, Any]]) -> None:
        """Judge by the metrics of worker 0's own weights after so many steps."""
        began = monotonic()
        value = float(measure().get(self.target.metric, math.nan))
        self.seconds = monotonic() - began
        self._looked += self.seconds
        self._next = max(_FIRST, clock + 1, math.ceil(_AGAIN * clock))
        if not math.isfinite(value):
            return
        self._curve.append(CurvePoint(0.0, 0.0, self.taken or clock * self.per_step, value))
        self.met = clock > 0 and self.target.met_by(value)
        self.hopeless = not self.met and self.prospect is not None and self.prospect.is_hopeless(self._curve)
