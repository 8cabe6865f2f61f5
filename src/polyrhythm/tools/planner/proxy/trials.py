"""Runs of methods at sizes, each until the target: made in a pool, kept in a cache, and lengthened until they come there."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from polyrhythm.core.records.metrics import Target
from polyrhythm.core.training.run import Attempt
from polyrhythm.tools.planner.budget import Budget
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.lengths import LONGER
from polyrhythm.tools.planner.measure_cache import MeasureCache
from polyrhythm.tools.planner.measured import TrainedRun
from polyrhythm.tools.planner.proxy.crossing import crossing
from polyrhythm.tools.planner.proxy.matched import matched
from polyrhythm.tools.planner.proxy.sizes import CountedFamily
from polyrhythm.tools.planner.proxy.trial import Trial
from polyrhythm.tools.planner.scenario import Scenario
from polyrhythm.tools.planner.tasks import TIME_IS_UP
from polyrhythm.tools.pools.pools import Done, Followed, Pool, work

_MARGIN = 1.4
"""A run is so many times as long as the target is expected to take."""
_FURTHER = 2.0
_LEAST_STEPS = 24
_EASIER = 0.02
"""An easier target is so much easier than the best value of the size that decides it."""


@dataclass(frozen=True, slots=True)
class WantedTrial:
    """A run: a method, with the settings of its size and its rate, so many parameters, and a seed; it may take about so many `samples`."""

    candidate: Candidate
    parameters: int
    seed: int
    samples: float


@dataclass(slots=True)
class Trials:
    """Runs on the machines of `scenario`, matched to the true model of `family`.

    None begins for which there is no time by a part of the budget.
    """

    scenario: Scenario
    family: CountedFamily
    pool: Callable[[Done], Pool]
    budget: Budget
    cache: MeasureCache
    seen: Callable[[str], None]
    done: dict[tuple[Candidate, int], TrainedRun] = field(default_factory=dict)
    runs: int = 0
    kept: int = 0
    late: bool = False
    """Whether there was no time for some run."""
    target: Target = field(init=False)

    def __post_init__(self) -> None:
        self.target = self.scenario.target

    def samples(self, candidate: Candidate, seed: int) -> float:
        """The samples to the target of a run that was made; infinite where it did not come there."""
        found = self.done.get((candidate, seed))
        reached = None if found is None or found.error else crossing(found.curve, self.target)
        return math.inf if reached is None else reached

    def make(self, wanted: Iterable[WantedTrial], by: float, most: Callable[[], float]) -> None:
        """Make runs, and longer ones of those that did not come to the target, as far as `most` samples, which is asked after each
        round."""
        pending = [(each, _MARGIN * each.samples) for each in wanted]
        while pending:
            work(self.pool, self._tasks(pending, by))
            pending = [(each, _FURTHER * samples) for each, samples in pending if self._goes_on(each, samples, most())]

    def _tasks(self, pending: Iterable[tuple[WantedTrial, float]], by: float) -> Iterator[Followed]:
        for each, samples in pending:
            steps = self._steps(each.candidate, samples)
            known = self.cache.get(self._key(each, steps), TrainedRun)
            if known is not None:
                self.kept += 1
                self._note(each, known)
            elif self.budget.left(by) <= self.expected(each, samples):
                self.late = True
            else:
                yield Trial(self._there(each), each.candidate, each.seed, steps, self.budget.deadline()), partial(self._ended, each, steps)

    def ease(self, candidates: Sequence[Candidate], seed: int) -> bool:
        """Take a target to which the best of these runs came, by a part easier than its best value; False where none has any value."""
        runs = [run for each in candidates if (run := self.done.get((each, seed))) is not None and not run.error]
        values = [value for run in runs if (value := run.best(self.target)) is not None and math.isfinite(value)]
        if not values:
            return False
        best = self.target.best(values)
        eased = best - _EASIER * abs(best) if self.target.higher_is_better else best + _EASIER * abs(best)
        self.target = replace(self.target, value=float(f"{eased:.4g}"))
        return True

    def _goes_on(self, each: WantedTrial, samples: float, most: float) -> bool:
        """True if a longer run than one of so many samples may come to the target."""
        known = self.done.get((each.candidate, each.seed))
        if known is None or known.error or known.over or self.samples(each.candidate, each.seed) < math.inf:
            return False
        made = known.limit >= self._steps(each.candidate, samples)
        return made and samples < min(most, LONGER * self.scenario.samples(self.family.batch))

    def _steps(self, candidate: Candidate, samples: float) -> int:
        return max(_LEAST_STEPS, math.ceil(samples / (candidate.workers * self.family.batch)))

    def expected(self, each: WantedTrial, samples: float) -> float:
        """The seconds of a run by the clock, from those of its size, or the next smaller one, so far; 0 before the first."""
        own = [
            (run.real, run.samples)
            for (candidate, _), run in self.done.items()
            if run.samples and dict(candidate.settings).items() & dict(each.candidate.settings).items()
        ]
        return samples * sum(real for real, _ in own) / sum(count for _, count in own) if own else 0.0

    def _ended(self, each: WantedTrial, steps: int, attempt: Attempt) -> None:
        found = TrainedRun.of(attempt, self.target, steps, 0 if self.family.counts else self.family.batch, each.candidate.strategy.chooses)
        self.runs += 1
        if found.cut != TIME_IS_UP:
            self.cache.put(self._key(each, steps), found)
            self._note(each, found)
        self.seen(each.candidate.name)

    def _note(self, each: WantedTrial, found: TrainedRun) -> None:
        known = self.done.get((each.candidate, each.seed))
        if known is None or found.samples >= known.samples:
            self.done[each.candidate, each.seed] = found

    def _key(self, each: WantedTrial, steps: int) -> str:
        return self._there(each).key(each.candidate, "proxy", str(self.target), each.seed, steps)

    def _there(self, each: WantedTrial) -> Scenario:
        """The machines of a run, on which it looks for the target of now."""
        return matched(self.scenario, self.family.true, each.parameters).elsewhere(target=self.target)
