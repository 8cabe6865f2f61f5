"""What samples cost a candidate: its seconds and bytes, from a few steps of its own or, with an error, from those of others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.measured import CurvePoint, TrainedRun
from polyrhythm.tools.planner.objective import Spent
from polyrhythm.tools.planner.products import product

OWN_PACE = 0.05
"""The deviation of the logarithm of a cost that own steps have shown."""
FORETOLD = 0.15
"""And of one that timing-only steps of a small model have."""
_BY_WORKERS = 0.7
"""Exchanges take longer with a power of the number of workers, where other numbers were not timed."""
_FROM_OTHERS = 0.5
"""The deviation for each e-fold of workers."""
_OTHER_MACHINES, _OTHER_OPTIONS = 0.3, 0.3
_FROM_SYSTEMS = 1.0
"""The deviation where only other systems were timed."""


@dataclass(frozen=True, slots=True)
class StepPace:
    """`begun` are seconds, bytes and samples by which all workers had begun; each step of all takes `seconds` and `nbytes` from then on.

    The fastest worker takes `ahead` steps meanwhile, or they all do where each skips some.
    """

    begun: tuple[float, float, float]
    seconds: float
    nbytes: float
    deviation: float = OWN_PACE
    ahead: float = 1.0

    @staticmethod
    def of(training: TrainedRun, per_step: float, deviation: float = OWN_PACE) -> StepPace:
        """The pace of a run in which all workers together take so many samples a step: that of its later part, while all trained."""
        seconds, nbytes, samples = training.whole
        begun = training.begun if training.begun[2] < samples else (0.0, 0.0, 0.0)
        since = training.later if begun[2] < training.later[2] < samples else begun
        steps = (samples - since[2]) / per_step
        return StepPace(begun, (seconds - since[0]) / steps, (nbytes - since[1]) / steps, deviation, training.ahead(per_step))

    def spent(self, samples: float, per_step: float, workers: int) -> Spent:
        """What so many samples take."""
        steps = max(0.0, samples - self.begun[2]) / per_step
        return Spent(self.begun[0] + product(steps, self.seconds), self.begun[1] + product(steps, self.nbytes), workers)


@dataclass(slots=True)
class Paces:
    """The paces of candidates, from the `runs` of all.

    `per_step` says how many samples a step of all workers has, `computing` the seconds that it takes without an exchange, and `error`
    the deviation of what a run has shown. `foretold` are paces that timings have, of candidates without settings.
    """

    runs: Iterable[tuple[Candidate, TrainedRun]]
    per_step: Callable[[Candidate], float]
    computing: Callable[[Candidate], float]
    error: Callable[[Candidate, TrainedRun], float]
    foretold: Mapping[Candidate, StepPace] = field(default_factory=dict)
    _known: dict[Candidate, StepPace] = field(init=False)
    _timed: dict[str, dict[Candidate, StepPace]] = field(init=False)

    def __post_init__(self) -> None:
        timed = [(each, training) for each, training in self.runs if training.samples > 0 and not training.error]
        self._known = {each: StepPace.of(training, self.per_step(each), self.error(each, training)) for each, training in timed}
        self._timed = {}
        for each, pace in {**self.foretold, **self._known}.items():
            self._timed.setdefault(each.system, {})[each] = pace

    def of(self, candidate: Candidate) -> StepPace:
        """The pace of a candidate, as far as is known."""
        if candidate in self._known:
            return self._known[candidate]
        if own := self._timed.get(candidate.system):
            nearest = min(own, key=lambda each: _distance(candidate, each))
            return self._like(candidate, nearest, own[nearest])
        return self._like_others(candidate)

    def _like(self, candidate: Candidate, other: Candidate, pace: StepPace) -> StepPace:
        """The pace of the same system with another number of workers, batch or machines."""
        ratio = candidate.workers / other.workers
        scale = ratio**_BY_WORKERS if ratio != 1.0 else 1.0
        exchange = max(0.0, pace.seconds - self.computing(other)) * scale
        apart = _FROM_OTHERS * abs(math.log(ratio)) + _unlike(candidate, other)
        begun = pace.begun[0] * scale, pace.begun[1] * ratio, pace.begun[2] * ratio
        return StepPace(begun, self.computing(candidate) + exchange, pace.nbytes * ratio, math.hypot(pace.deviation, apart), pace.ahead)

    def _like_others(self, candidate: Candidate) -> StepPace:
        """The pace of a system of which nothing was timed: the median of the others'."""
        known = {each: pace for paces in self._timed.values() for each, pace in paces.items()}
        others = [each for each in known if not each.is_alone]
        computing = self.computing(candidate)
        if not others or candidate.is_alone:
            return StepPace((0.0, 0.0, 0.0), computing, 0.0, OWN_PACE if candidate.is_alone else _FROM_SYSTEMS)
        paces = [self._like(candidate, each, known[each]) for each in others]
        begun = min(each.begun for each in paces)
        middle = math.exp(median(math.log(max(each.seconds, 1e-12)) for each in paces))
        return StepPace(begun, max(computing, middle), median(each.nbytes for each in paces), _FROM_SYSTEMS)


def _distance(candidate: Candidate, other: Candidate) -> tuple[float, bool]:
    """The sort key of another of the same system: how far its pace may be from the candidate's."""
    return abs(math.log(other.workers / candidate.workers)) + _unlike(candidate, other), other.settings == ()


def _unlike(candidate: Candidate, other: Candidate) -> float:
    """The deviation of a pace because machines or options differ."""
    return _OTHER_MACHINES * (other.machines != candidate.machines) + _OTHER_OPTIONS * (other.options != candidate.options)


def carried_over(timed: TrainedRun, donor: TrainedRun, pace: StepPace, per_step: float, like: str) -> TrainedRun:
    """The run that a candidate would have: the curve of `donor`, whose samples are as good, at its own pace."""

    def moved(point: CurvePoint) -> CurvePoint:
        spent = pace.spent(point.samples, per_step, 1)
        return CurvePoint(spent.seconds if point.samples else 0.0, spent.nbytes if point.samples else 0.0, point.samples, point.value)

    whole = pace.spent(donor.samples, per_step, 1)
    return TrainedRun(
        [moved(point) for point in donor.curve],
        donor.reached,
        whole.seconds,
        whole.nbytes,
        donor.samples,
        donor.limit,
        donor.over,
        held=timed.held,
        begun=pace.begun,
        lines=timed.lines,
        like=like,
    )
