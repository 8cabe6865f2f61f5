"""A choice as it will be printed, executed once under a seed that the search has not used."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from polyrhythm.core.training.run import Attempt
from polyrhythm.tools.planner.answer import Execution
from polyrhythm.tools.planner.budget import Budget
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.findings import Findings
from polyrhythm.tools.planner.forecast import Interval
from polyrhythm.tools.planner.measured import TrainedRun
from polyrhythm.tools.planner.tasks import TIME_IS_UP, TrainingTask
from polyrhythm.tools.pools.pools import Done, Followed, Pool, work

_LATE = 1.25
"""An execution that takes longer than the search's time is broken off at so many times that."""
_SMALL_PART = 1 / 4
"""It is executed under further seeds where each takes less than this part of the time that is left."""


@dataclass(slots=True)
class Rehearsal:
    """Executes candidates under `seeds`, the first of them at least; what came of it counts as runs of theirs under further seeds."""

    found: Findings
    pool: Callable[[Done], Pool]
    budget: Budget
    seeds: Sequence[int]
    executed: dict[Candidate, Execution] = field(default_factory=dict)

    def execute(self, candidate: Candidate, expected: Interval, samples: float) -> None:
        """Make the runs that the command makes, which have the length for so many samples, as far as twice these.

        The first candidate is executed also where the time is up, others only within what an execution may be late.
        """
        found, printed = self.found, self.found.printed(candidate, samples, whole=True)
        steps = found.steps(candidate, 2 * samples)
        late = self.budget.left(_LATE) if self.executed else max(self.budget.left(_LATE), (_LATE - 1) * self.budget.seconds)
        if late <= 0:
            return
        runs: dict[int, TrainedRun] = {}

        def tasks() -> Iterator[Followed]:
            for seed in self._in_time(candidate, samples):
                task = TrainingTask(
                    found.scenario.among(printed), printed, found.objective_of(candidate), seed, steps, deadline=self.budget.day() + late
                )
                yield task, partial(self._ended, candidate, seed, runs)

        work(self.pool, tasks())
        known = dict(sorted(runs.items()))
        found.trainings[candidate] |= {seed: training for seed, training in known.items() if training.cut != TIME_IS_UP}
        missed = [each.error or each.cut or f"it ended after {each.samples:.3g} samples" for each in known.values() if each.end is None]
        seconds = [None if each.end is None else each.end.seconds for each in known.values()]
        self.executed[candidate] = Execution(list(known), seconds, expected, missed[0] if missed else "")

    def _in_time(self, candidate: Candidate, samples: float) -> Iterator[int]:
        """The first seed, and the others as long as there is time for them."""
        steps = self.found.steps(candidate, samples)
        for place, seed in enumerate(self.seeds):
            if not place or self.found.run_times.seconds(candidate, steps) <= _SMALL_PART * self.budget.left():
                yield seed

    def _ended(self, candidate: Candidate, seed: int, runs: dict[int, TrainedRun], attempt: Attempt) -> None:
        runs[seed] = self.found.read(candidate, attempt, 0)
        self.found.runs += 1


def within(interval: Interval, samples: float) -> float:
    """The samples that a run needs whose time is at the upper bound, where so many are needed in the middle."""
    return samples * (interval.high / interval.middle if interval.middle and math.isfinite(interval.high) else 2.0)
