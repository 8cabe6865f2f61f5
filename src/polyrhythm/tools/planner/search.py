"""The search: one machine alone is tuned, then what is most likely to change the answer for its cost is run, and last further seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from polyrhythm.core.training.run import Attempt
from polyrhythm.core.units import show_seconds
from polyrhythm.tools.planner.alone import AloneTuning, Wanted
from polyrhythm.tools.planner.beliefs import Beliefs
from polyrhythm.tools.planner.budget import Budget
from polyrhythm.tools.planner.candidate import ALONE, Candidate, first_of_each
from polyrhythm.tools.planner.cells import SampleCell
from polyrhythm.tools.planner.certainty import probable
from polyrhythm.tools.planner.findings import LEEWAY, Findings
from polyrhythm.tools.planner.foretold import Foretelling
from polyrhythm.tools.planner.measured import TrainedRun
from polyrhythm.tools.planner.next_runs import MOST, NextRun, NextRuns, SearchState
from polyrhythm.tools.planner.shared_curves import SharedCurves
from polyrhythm.tools.planner.tasks import BEYOND
from polyrhythm.tools.pools.pools import Done, Followed, Pool, work

_ALONE = 0.2
"""One machine alone is tuned for this part of the time."""
_FORETOLD = 0.15
"""Timings of all systems may take this part."""
_SEARCHED_BY = 0.78
_BROKEN_OFF_BY = 0.84
"""Runs of the search are broken off then."""
_CONFIRMED_BY = 0.92
_FAR_LONGER = 2.0
_PATIENT, _PATIENT_PART = 4.0, 0.04
"""The first run of a system may take so many times what was expected by the clock, or this part of the time."""
SURE = 0.95
"""The search ends early where the answer is the best with this probability."""
_LEAST_GAIN = 0.002
"""And where no single run is expected to lower the cost by this part."""
_UNLIKELY = 0.05
"""Further seeds are for candidates that are the best with this probability."""
_CLOSE, _MORE_SEEDS = 1.2, 4
"""Those that cost at most so many times the best may run under so many more seeds."""
_LEADING = 12
LATE = "the time was up before it was tried: give a longer --budget"


def _nothing() -> None:
    """The default for those who watch: nobody does."""


@dataclass(slots=True)
class Search:
    """`budget` is how long it may take, with `at_once` runs; `confirmed` of the best candidates are run under `seeds` further seeds.

    `on_change` is called when the beliefs about candidates have changed.
    """

    found: Findings
    pool: Callable[[Done], Pool]
    budget: Budget
    confirmed: int = 3
    seeds: int = 2
    at_once: int = 1
    on_change: Callable[[], None] = _nothing
    ended: str = ""
    """Why the search ended before its time, if it did."""
    more_seeds: int = 0
    """Seeds that were run of those that lie close together, because there was time."""
    shared: SharedCurves = field(init=False)
    next_runs: NextRuns = field(init=False)
    _busy: set[tuple[SampleCell, int]] = field(default_factory=set)
    _beliefs: tuple[int, Beliefs] | None = None

    def __post_init__(self) -> None:
        self.shared = SharedCurves(self.found)
        self.next_runs = NextRuns(self.shared)

    def run(self) -> None:
        """Search. What is known by then stays in `found` if this is interrupted."""
        by = min(_SEARCHED_BY, self.budget.spent() / self.budget.seconds + _ALONE)
        AloneTuning(self.found, lambda wanted: self.make(wanted, by), lambda: self.budget.left(by)).run()
        self._foretell()
        while min(self.budget.left(_SEARCHED_BY), self._until_confirmed()) > 0 and not self.ended:
            before = self.found.runs + self.found.kept
            work(self.pool, self._runs())
            if self.found.runs + self.found.kept == before:
                break
            if not self.found.measured:
                return  # the JOB does not give the metric: more of it will not either
        self.confirm()
        self._settle()

    def _foretell(self) -> None:
        """Time all systems without gradients, with their first settings."""
        found, until = self.found, min(_SEARCHED_BY, self.budget.spent() / self.budget.seconds + _FORETOLD)
        foretelling = Foretelling(found.scenario, found.shape(), found.batch(ALONE), found.foretold)
        wanted = [replace(each, settings=()) for each in found.space.first() if not each.is_alone and self.next_runs.is_possible(each)]
        work(self.pool, foretelling.runs(wanted, lambda: self.budget.left(until) > 0))

    @property
    def all_seeds(self) -> list[int]:
        """The first, under which all are compared, and the further ones."""
        first = self.found.scenario.seed
        return [first + further for further in range(self.seeds + 1 + self.more_seeds)]

    @property
    def last_seed(self) -> int:
        """No seed of the search is larger."""
        return self.found.scenario.seed + self.seeds + _MORE_SEEDS

    @property
    def beliefs(self) -> Beliefs:
        """The beliefs by all runs so far."""
        made = self.found.runs + self.found.kept + sum(len(runs) for runs in self.found.trainings.values())
        if self._beliefs is None or self._beliefs[0] != made:
            self._beliefs = made, Beliefs(self.shared, self.next_runs.pool(self._leading()))
        return self._beliefs[1]

    def _leading(self) -> list[Candidate]:
        """The candidates that cost least to the target, as far as is known by their own runs."""
        found = self.found
        costs = {each: found.expected(each) for each in found.trainings if found.offers(each) and each not in found.refused}
        return sorted((each for each in costs if costs[each] < math.inf), key=costs.__getitem__)[:_LEADING]

    def _runs(self) -> Iterator[Followed]:
        """The runs that tell most for their cost, until the answer is sure enough or none of those that are left tells much."""
        found = self.found
        while (left := self.budget.left(_SEARCHED_BY)) > 0 and (until := self._until_confirmed()) > 0:
            beliefs = self.beliefs
            if self._sure(beliefs):
                return
            state = SearchState(beliefs, self.all_seeds, self._busy)
            chosen = self.next_runs.choose(state, min(until, max(left, self.budget.left() / 2)))
            if chosen is None or (chosen.gain < _LEAST_GAIN and found.best < math.inf):
                if chosen is None or not self._busy:
                    self.ended = "" if chosen is None else "no further run was expected to change the answer"
                return
            candidate, steps = chosen.candidate, found.steps(chosen.candidate, chosen.samples)
            most = found.worth if chosen.seed == found.scenario.seed else 2 * LEEWAY * found.cost_of(candidate)
            if self._take_kept(candidate, chosen.seed, steps, most):
                continue
            key = self.shared.cells.of(candidate), chosen.seed
            self._busy.add(key)
            task = found.task(candidate, chosen.seed, steps, most, self.budget.deadline(_BROKEN_OFF_BY))
            task = replace(task, prospect=chosen.prospect, patience=self._patience(chosen))
            yield task, partial(self._ended, key, candidate, chosen.seed, steps)

    def _until_confirmed(self) -> float:
        """The seconds until further seeds of the first choice, and of one machine alone, have to begin if they are to end in time."""
        found, ranked = self.found, self.found.ranked()
        times, compared = found.run_times, {min(ranked, key=found.order), found.best_alone} if ranked else set()
        runs = [(each, found.steps(each, BEYOND * found.needed(each))) for each in compared if found.cost_of(each) < math.inf]
        seconds = sum(times.seconds(each, steps) for each, steps in runs)
        return self.budget.left(_CONFIRMED_BY) - self.seeds * seconds / self.at_once

    def _patience(self, chosen: NextRun) -> float:
        """The seconds after which a run ends: of a system that has not run yet some times what others take, in case it takes far longer."""
        if any(each.system == chosen.candidate.system and runs for each, runs in self.found.trainings.items()):
            return math.inf
        return max(_PATIENT * chosen.seconds, _PATIENT_PART * self.budget.seconds)

    def _sure(self, beliefs: Beliefs) -> bool:
        """True if the best of those that came to the target is the best of all, with a high probability."""
        ranked = self.found.ranked()
        if ranked and (probability := beliefs.probability(min(ranked, key=self.found.order))) >= SURE:
            self.ended = f"the first choice is the best with a probability of {probable(probability)}"
        return bool(self.ended)

    def _ended(self, key: tuple[SampleCell, int], candidate: Candidate, seed: int, steps: int, attempt: Attempt) -> None:
        self._busy.discard(key)
        self._keep(candidate, seed, steps, attempt)

    def _keep(self, candidate: Candidate, seed: int, steps: int, attempt: Attempt) -> None:
        self.found.keep(candidate, seed, steps, attempt)
        self.shared.share(candidate)
        self.on_change()

    def _take_kept(self, candidate: Candidate, seed: int, steps: int, most: float) -> bool:
        if not self.found.take_kept(candidate, seed, steps, most):
            return False
        self.shared.share(candidate)
        return True

    def _settle(self) -> None:
        """Why each system that did not come to the target is not among the choices."""
        found, late, there = self.found, self.budget.left(_SEARCHED_BY) <= 0, self._systems()
        found.refused.update({each: why for each, why in self.next_runs.skipped.items() if each.system not in there})
        if (found.best == math.inf and found.cost_of(found.best_alone) == math.inf) or not found.measured:
            return
        for first in self.next_runs.pool([]):
            if first.system in there or any(each.system == first.system for each in found.refused):
                continue
            tried = [each for each in found.trainings if each.system == first.system and found.training(each) is not None]
            if tried or not first.is_alone:
                candidate = tried[-1] if tried and first not in tried else first
                found.refused[candidate] = self._reason(candidate, found.training(candidate), late)

    def _systems(self) -> set[str]:
        """The systems of which a candidate came to the target."""
        return {each.system for each in self.found.trainings if self.found.cost_of(each) < math.inf}

    def _reason(self, candidate: Candidate, training: TrainedRun | None, late: bool) -> str:
        """Why the candidate was not followed to the target."""
        if training is None:
            return LATE if late else "by what others showed, it would hardly come first"
        if training.error:
            return training.error
        if training.over:
            return f"its training ended after {training.samples:.3g} samples, and had not come to the target"
        if training.cut or self.found.least(candidate) > self.found.worth:
            rate = show_seconds(training.sample_seconds if training.samples else training.seconds)
            return f"a sample takes {rate}: on the fewest samples that any needed it would still cost more than the best"
        return f"others lead after {training.samples:.3g} samples, as their papers have them"

    def confirm(self) -> None:
        """Run the best, and the best of one worker alone, under further seeds, for more samples than they needed under the first.

        What was best under one seed is often not so under others: this continues until the first by the median is one that has run under
        all.
        """
        found = self.found
        confirmed: set[Candidate] = set()
        while self.budget.left(_CONFIRMED_BY) > 0:
            alone = found.best_alone
            ranked = [each for each in found.ranked() if each not in found.refused and (each == alone or not each.is_alone)]
            ranked = sorted(ranked, key=found.order)
            if not ranked or (ranked[0] in confirmed and alone in confirmed):
                break
            compared = [alone] if found.cost_of(alone) < math.inf and alone not in confirmed else []
            likely = [each for each in ranked if each == ranked[0] or self.beliefs.probability(each) >= _UNLIKELY]
            chosen = list(dict.fromkeys([*compared, *(each for each in likely if each not in confirmed)]))[: self.confirmed + len(compared)]
            confirmed.update([*chosen, alone])
            self.make((one for further in self.all_seeds[1:] for one in self._further(chosen, further)), _CONFIRMED_BY)
        self._tell_apart()

    def _tell_apart(self) -> None:
        """Run those that come near the first under more seeds, as long as there is time: of many, one is the best under three by chance."""
        found = self.found
        while self.budget.left(_CONFIRMED_BY) > 0 and self.more_seeds < _MORE_SEEDS:
            known = [each for each in found.ranked() if len(found.trainings[each]) > self.seeds and each not in found.refused]
            best = min(map(found.typical, known), default=math.inf)
            close = [each for each in known if found.typical(each) <= _CLOSE * best]
            if best == math.inf or len(close) < 2:
                return
            self.more_seeds += 1
            self.make(self._further(sorted(close, key=found.order)[:_LEADING], self.all_seeds[-1]), _CONFIRMED_BY)

    def _further(self, candidates: Sequence[Candidate], seed: int) -> Iterator[Wanted]:
        for each in candidates:
            yield each, seed, self._further_steps(each), 2 * LEEWAY * self.found.cost_of(each)

    def _further_steps(self, candidate: Candidate) -> int:
        """Under a further seed: it ends soon after it comes to the target."""
        found = self.found
        return found.steps(candidate, 2 * LEEWAY * min(found.needed(candidate), found.samples * MOST))

    def follow(self, systems: int, until: float) -> None:
        """Run the likeliest of the other systems until so many have come to the target together: a search may be sure before they do."""
        found, beliefs = self.found, self.beliefs
        others = [each for each in beliefs.pool if not each.is_alone and found.fits(each)]
        for each in first_of_each(sorted(others, key=lambda each: beliefs.of(each).mean)):
            there = {other.system for other in found.ranked() if not other.is_alone}
            if len(there) >= systems:
                return
            training, samples = found.training(each), beliefs.of(each).samples
            if each.system not in there and (training is None or not training.error):
                most = min(samples.mean + samples.deviation, math.log(MOST * found.samples))
                self.make([(each, found.scenario.seed, found.steps(each, math.exp(most)), math.inf)], until, until)

    def make(self, wanted: Iterable[Wanted], until: float, off: float = 1.0) -> None:
        """Run candidates where no run is known that went as far: none begins after part `until` of the time, or ends after part `off`."""
        work(self.pool, self.wanted(wanted, until, off))

    def wanted(self, wanted: Iterable[Wanted], until: float, off: float) -> Iterator[Followed]:
        """The runs that `make` makes."""
        deadline = self.budget.deadline(off)
        for candidate, seed, steps, most in wanted:
            if self._take_kept(candidate, seed, steps, most):
                continue
            if self.budget.left(until) > 0 and self._fits(candidate, steps, until):
                yield self.found.task(candidate, seed, steps, most, deadline), partial(self._keep, candidate, seed, steps)

    def _fits(self, candidate: Candidate, steps: int, until: float) -> bool:
        """True if so many steps should be over in time, as far as runs tell: short runs say little of one that is far longer.

        One that is known to come to the target ends soon after that.
        """
        found = self.found
        if found.cost_of(candidate) < math.inf:
            steps = min(steps, found.steps(candidate, BEYOND * found.needed(candidate)))
        if found.run_times.seconds(candidate, steps) <= max(self.budget.left(until), self.budget.left() / 2):
            return True
        samples = [training.samples for runs in found.trainings.values() for training in runs.values()]
        return steps * found.per_step(candidate) > _FAR_LONGER * max(samples, default=0.0)
