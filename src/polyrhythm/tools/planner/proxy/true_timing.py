"""What a method takes per sample of the true model: a timing-only run of its shapes on the machines of the plan."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from polyrhythm.core.kernel.events import Stepped
from polyrhythm.core.records.progress import Watch, ignore
from polyrhythm.core.simulator import OneByOne
from polyrhythm.core.tensors import Layout
from polyrhythm.tools.measuring.recurrence import recurrence_of
from polyrhythm.tools.measuring.replay import StepShape
from polyrhythm.tools.measuring.timing import watched_timing
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.circumstances import with_links
from polyrhythm.tools.planner.measured import Taken
from polyrhythm.tools.planner.scenario import Scenario

_LEAST_STEPS = 4
_DRAWN = 8
"""Rounds that are timed where workers are drawn for each, and no two are alike."""
_LARGEST = 4e7
"""Numbers of all workers' models together that a timing exchanges; of larger ones some tensors are left out, and links are as much
slower."""


@dataclass(frozen=True, slots=True)
class TrueTiming:
    """Seconds and bytes by the samples of all workers, for as long as all train; beyond that those since `settled` come again and again.

    `cut` is how many times more numbers the model has than what was timed. The fastest worker took `ahead` steps for a step of all.
    """

    samples: NDArray[np.float64]
    seconds: NDArray[np.float64]
    nbytes: NDArray[np.float64]
    settled: int
    cut: float = 1.0
    ahead: float = 1.0

    def at(self, samples: float) -> tuple[float, float]:
        """The seconds and the bytes of so many samples: what is between two exchanges takes no part of the next one."""
        since, until = float(self.samples[self.settled]), float(self.samples[-1])
        times = 0.0 if samples <= until else (samples - since) // (until - since)
        within = samples - times * (until - since)
        return self._of(self.seconds, within, times), self._of(self.nbytes, within, times)

    def _of(self, course: NDArray[np.float64], samples: float, times: float) -> float:
        """The value of a course, the later part of which came so many times before."""
        return float(np.interp(samples, self.samples, course) + times * (course[-1] - course[self.settled]))

    @property
    def pace(self) -> tuple[float, float]:
        """The seconds and the bytes of one more sample, once it exchanges as usual."""
        span = self.samples[-1] - self.samples[self.settled]
        return (
            float((self.seconds[-1] - self.seconds[self.settled]) / span),
            float((self.nbytes[-1] - self.nbytes[self.settled]) / span),
        )


def true_timing(
    scenario: Scenario, candidate: Candidate, shape: StepShape, small: StepShape | None = None, watch: Watch = ignore
) -> TrueTiming:
    """Time steps of `shape` at each worker, on those of a `small` one, where it is given, over links that are as much slower.

    Raises CompositionError for a method whose messages depend on what is computed.
    """
    strategy = candidate.strategy
    comes_again = recurrence_of(strategy, candidate.workers)
    beginning, period = comes_again.beginning, comes_again.period * -(-_LEAST_STEPS // comes_again.period)
    rounds = _DRAWN if strategy.chooses else 2
    some = thinned(small or shape, candidate.workers)
    cut = shape.layout.numel / some.layout.numel
    there = replace(scenario, network=with_links(scenario.network, bandwidth=1 / cut)) if cut > 1 else scenario
    first = beginning + period
    on = replace(there.on(scenario.seed), gradients=OneByOne())
    made = watched_timing(some, workers=candidate.workers, strategy=strategy, steps=first + rounds * period, on=on, watch=watch)
    return _read([each for each in made.events if isinstance(each, Stepped)], first, shape.samples, cut, strategy.chooses)


def _read(events: list[Stepped], first: int, batch: int, cut: float, chooses: bool) -> TrueTiming:
    """The course of a run from its steps, until the first worker has taken its last one: slower workers go on alone then.

    It has settled when that worker has taken its `first` steps. Where workers skip the steps for which they are not drawn, that is when
    all have taken as many on the average, and the course has all steps.
    """
    last = {each.actor: each for each in events}
    ends = (max if chooses else min)(last.values(), key=lambda each: each.time)
    taken, seconds = Taken(events), np.unique([0.0, *(each.time for each in events if each.time <= ends.time)])
    samples, clocks = taken.samples(seconds), taken.clocks(seconds)
    done = clocks.mean(0) if chooses else clocks[list(last).index(ends.actor)]
    settled = min(int(np.searchsorted(done, first)), len(seconds) - 2)
    steps = (samples[-1] - samples[settled]) / (batch * len(last))
    ahead = float((clocks[:, -1] - clocks[:, settled]).max() / steps)
    return TrueTiming(samples, seconds, cut * taken.nbytes(seconds), settled, cut, max(1.0, ahead))


def thinned(shape: StepShape, workers: int) -> StepShape:
    """The shape with fewer tensors of each size, one at least, if so many workers would exchange too much for a timing."""
    times = shape.layout.numel * workers / _LARGEST
    if times <= 1:
        return shape
    counts, kept = Counter(shape.layout.shapes), Counter[tuple[int, ...]]()
    names, shapes = [], []
    for name, size in zip(shape.layout.names, shape.layout.shapes, strict=True):
        if kept[size] < math.ceil(counts[size] / times):
            kept[size] += 1
            names.append(name)
            shapes.append(size)
    return replace(shape, layout=Layout(tuple(names), tuple(shapes)))
