"""Maps of the systems that would win on other links and with other numbers of workers, from timing runs and measured samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.core.records.progress import Watch
from polyrhythm.core.training.run import Attempt
from polyrhythm.errors import PolyrhythmError
from polyrhythm.tools.measuring.replay import StepShape
from polyrhythm.tools.measuring.timing import time_shape
from polyrhythm.tools.planner.answer import Cell, PhaseMap
from polyrhythm.tools.planner.candidate import Candidate, first_of_each
from polyrhythm.tools.planner.circumstances import Circumstance, links
from polyrhythm.tools.planner.findings import Findings
from polyrhythm.tools.planner.scenario import Scenario
from polyrhythm.tools.planner.tasks import failed
from polyrhythm.tools.pools.pools import Done, Pool, RunTask

FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)
COMPARED = 2
"""A map is of so many systems or more."""
_SYSTEMS = 4
_STEPS = 20
_MOST_STEPS = 64

AXES: Mapping[str, Callable[[float], Circumstance]] = {
    "bandwidth": lambda factor: links(bandwidth=factor),
    "latency": lambda factor: links(latency=factor),
}
"""The axis that is varied in addition to the number of workers."""

Place = tuple[Candidate, str, float]
"""A candidate with so many workers, on links one of whose properties is changed by a factor."""


@dataclass(frozen=True, slots=True)
class TimingTask:
    """A run of so many steps of each worker, without arithmetic."""

    scenario: Scenario
    candidate: Candidate
    shape: StepShape
    steps: int

    @property
    def name(self) -> str:
        """The candidate's name in progress lines."""
        return f"{self.candidate.name}, timed"

    def attempt(self, directory: Path | None, watch: Watch, checkpoints: Checkpoints | None = None) -> Attempt:
        """Make the run. What cannot be timed fails."""
        on = self.scenario.on(self.scenario.seed)
        try:
            made = time_shape(self.shape, workers=self.candidate.workers, strategy=self.candidate.strategy, steps=self.steps, on=on)
        except PolyrhythmError as problem:
            return self.failed(problem)
        return Attempt(Outcome(made.outcome.summary))

    def failed(self, error: PolyrhythmError) -> Attempt:
        """The attempt of a run of which only `error` is known."""
        return failed(self.scenario, self.candidate, self.scenario.seed, error)


@dataclass(slots=True)
class PhaseMaps:
    """Timing runs of the best of some systems; none is started when no time is `left`."""

    found: Findings
    pool: Callable[[Done], Pool]
    left: Callable[[], float]
    rates: dict[Place, float] = field(default_factory=dict)

    def maps(self, leading: Sequence[Candidate]) -> list[PhaseMap]:
        """Maps over bandwidths and over latencies, of the first few of `leading`."""
        reached = [*leading, *sorted(self.found.trainings, key=self.found.cost_of)]
        chosen = first_of_each([each for each in reached if self._joins(each)])[:_SYSTEMS]
        if len(chosen) < COMPARED:
            return []
        counts = self._counts()
        own = [(each, "bandwidth", 1.0) for each in chosen]
        wide = [(each.on_every(count), axis, factor) for axis in AXES for factor in FACTORS for count in counts for each in chosen]
        self._time(list(dict.fromkeys([*own, *(_same(place) for place in wide)])))
        return [made for axis in AXES if (made := self._map(axis, chosen, counts)).cells]

    def _joins(self, candidate: Candidate) -> bool:
        """True if it reached the target with others; one that is too slow here may still win elsewhere."""
        return self.found.cost_of(candidate) < math.inf and candidate.workers > 1

    def _counts(self) -> list[int]:
        """Numbers of workers; those around it where there is but one."""
        given = self.found.space.together
        return list(given) if len(given) > 1 else sorted({max(2, given[0] // 2), given[0], given[0] * 2})

    def _map(self, axis: str, chosen: Sequence[Candidate], counts: Sequence[int]) -> PhaseMap:
        cells = []
        for factor in FACTORS:
            for count in counts:
                times = {each.system: seconds for each in chosen if (seconds := self._seconds(each, count, axis, factor)) is not None}
                if len(times) == len(chosen):
                    first, second = sorted(times, key=times.__getitem__)[:2]
                    cells.append(Cell(count, factor, first, times[first], times[second] / times[first] if times[first] else None))
        slowest = self.found.scenario.network.slowest()
        return PhaseMap(axis, slowest[1] if axis == "bandwidth" else slowest[0], [each.system for each in chosen], cells)

    def _seconds(self, candidate: Candidate, workers: int, axis: str, factor: float) -> float | None:
        """To the target: by what a sample takes there, corrected by what one with gradients took here, and the samples needed."""
        training = self.found.training(candidate)
        there, here = (
            self.rates.get(_same((replace(candidate, workers=workers), axis, factor))),
            self.rates.get((candidate, "bandwidth", 1.0)),
        )
        if training is None or there is None or not here or not training.samples:
            return None
        return there / here * training.sample_seconds * self._needed(candidate, workers)

    def _needed(self, candidate: Candidate, workers: int) -> float:
        """Samples to the target with so many workers, or with the nearest number that was run."""
        alike = [each for each in self.found.trainings if each.on_every(0) == candidate.on_every(0)]
        known = [each for each in alike if self.found.cost_of(each) < math.inf]
        nearest = min(known, key=lambda each: abs(math.log(each.workers / workers)))
        runs = self.found.trainings[nearest].values()
        return median(math.inf if training.end is None else training.end.samples for training in runs)

    def _time(self, places: Sequence[Place]) -> None:
        started: list[tuple[Place, int]] = []

        def tasks() -> Iterator[tuple[int, RunTask, Path | None]]:
            for place in places:
                candidate, axis, factor = place
                if self.left() <= 0 or self.found.impossible(candidate):
                    continue
                steps = min(_MOST_STEPS, max(_STEPS, *(int(value) for key, value in candidate.options if key == "period"), 0))
                there = AXES[axis](factor)(self.found.scenario, candidate.workers)
                started.append((place, steps))
                yield len(started) - 1, TimingTask(there, candidate, self.found.shape(candidate), steps), None

        def done(number: int, attempt: Attempt) -> None:
            place, steps = started[number]
            if attempt.error is None:
                samples = steps * self.found.per_step(place[0])
                self.rates[place] = (attempt.outcome.summary.virtual_seconds or 0.0) / samples

        self.pool(done).work(tasks())


def _same(place: Place) -> Place:
    """Links that are not changed are the same on all axes."""
    candidate, axis, factor = place
    return (candidate, "bandwidth", 1.0) if factor == 1.0 else (candidate, axis, factor)
