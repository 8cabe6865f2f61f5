"""Predictions for candidates from the runs of a search: what each spends to the target, and the bounds of its time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.findings import Findings
from polyrhythm.tools.planner.forecast import Interval, deviation, extrapolated, forecast
from polyrhythm.tools.planner.measured import TrainedRun
from polyrhythm.tools.planner.objective import Spent
from polyrhythm.tools.planner.products import product


@dataclass(frozen=True, slots=True)
class Predictions:
    """Predictions from what was found."""

    found: Findings

    def bounds(self, candidate: Candidate) -> Interval:
        """The bounds of its cost to the target, as far apart as those of the seconds."""
        reached = [training for training in self.found.trainings[candidate].values() if training.end is not None]
        spent, seconds = self.spent(candidate, reached)
        known = 0 < seconds.middle < math.inf
        return seconds.times(self.found.objective_of(candidate).cost(spent) / seconds.middle) if known else seconds

    def spent(self, candidate: Candidate, reached: Sequence[TrainedRun]) -> tuple[Spent, Interval]:
        """The resources that it takes to the target, and the bounds between which its seconds lie."""
        if reached:
            ends = [training.end for training in reached if training.end is not None]
            missed = len(self.found.trainings[candidate]) - len(ends)
            times = sorted(end.seconds for end in ends)
            if missed < len(ends):
                times = times[missed:]  # those that did not come there are the slowest: the median of all is that of the slower part
            seconds = forecast(times, *self.deviation())
            seconds = Interval(min(seconds.low, *(end.seconds for end in ends)), seconds.middle, seconds.high)
            return Spent(seconds.middle, median([end.nbytes for end in ends]), candidate.workers), seconds
        training = self.found.training(candidate)
        assert training is not None
        took, nbytes, samples = training.whole
        part = self.found.needed(candidate) / samples
        whole = product(took, part)
        return Spent(whole, product(nbytes, part), candidate.workers), extrapolated(whole)

    def deviation(self) -> tuple[float, int]:
        """The deviation of the seconds to the target between seeds; a curve that several share counts once."""
        runs = self.found.trainings
        made = {each.name: [run for run in runs[each].values() if not run.like] for each in runs}
        return deviation({name: [run.end.seconds for run in own if run.end is not None] for name, own in made.items()})
