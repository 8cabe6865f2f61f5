"""The search: short runs of all systems, longer ones of those that lead, then what an optimiser draws around these, and further seeds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from polyrhythm.parallel.pools import Done, Pool, Task
from polyrhythm.planner.budget import Budget
from polyrhythm.planner.candidate import ALONE, Candidate
from polyrhythm.planner.curves import Race
from polyrhythm.planner.draws import LEEWAY, Draws
from polyrhythm.planner.findings import Findings
from polyrhythm.training.run import Attempt
from polyrhythm.units import show_seconds

_PARTS = (1 / 64, 1 / 8, 1.0, 2.0, 4.0, 8.0, 16.0)
"""The heats have these parts of the JOB's samples."""
_KEPT = 4
"""A heat leaves one in so many, or fewer: as many as the next heat can run in this part of the time that is left for heats."""
_NEXT_HEAT = 0.6
_LEAST_FIELD = 4
"""But at least so many, and this many where time allows."""
_FIELD = 8
_RACED_BY = 0.5
"""Heats begin before this part of the time is over, and so for what follows: runs of those that heats ruled out, draws, further seeds."""
_REVISITED_BY = 0.6
_DRAWN_BY = 0.7
_BROKEN_OFF_BY = 0.78
"""Draws are broken off then."""
_CONFIRMED_BY = 0.9
_INSTANT = 1e-6
_FAR_LONGER = 2.0
_LONGER = 1.35
"""A run under another seed may take so many times the samples."""
_LATE = "the time was up before it was tried: give a longer --budget"


Wanted = tuple[Candidate, int, int, float]
"""A candidate, a seed, how many steps, and the cost at which its run is broken off."""


@dataclass(slots=True)
class Search:
    """`budget` is how long it may take; `confirmed` of the best candidates are run under `seeds` further seeds."""

    found: Findings
    pool: Callable[[Done], Pool]
    budget: Budget
    confirmed: int = 3
    seeds: int = 2
    passed: dict[Candidate, float] = field(default_factory=dict)
    """What those that early curves ruled out were expected to cost."""

    def run(self) -> None:
        """Search. What is known by then stays in `found` if this is interrupted."""
        field = self.heats()
        self.draw(self.revisited(field))
        self.confirm()

    @property
    def all_seeds(self) -> list[int]:
        """The first, under which all are compared, and the further ones."""
        first = self.found.scenario.seed
        return [first + further for further in range(self.seeds + 1)]

    # Successive halving (Jamieson & Talwalkar, 2016): every system as its paper has it

    def heats(self) -> list[Candidate]:
        """Runs of all systems on a part of the samples, of the best quarter of these on more, and so on to the target.

        Best is what is expected to cost least, by the curves so far. A system that cannot train for so little waits for a longer heat.
        Returns the last field, the best first.
        """
        found, field = self.found, self._possible()
        for part, following in pairwise(_PARTS):
            if not field or self.budget.left(_RACED_BY) <= 0:
                break
            waiting = [each for each in field if found.shortest(each) > part * found.samples]
            running = [each for each in field if each not in waiting]
            self.make(self._heat(running, part * found.samples), _DRAWN_BY)
            field = [*self._leaders(running, following * found.samples), *waiting]
            if part == _PARTS[0]:
                field = [each if each == ALONE else replace(each, workers=max(found.space.workers)) for each in field]
            if found.best < math.inf and all(found.cost_of(each) < math.inf for each in field):
                break
        untried = [each for each in field if found.training(each) is None]
        found.refused.update(dict.fromkeys(untried, _LATE))
        return [each for each in field if each not in untried]

    def _heat(self, field: Sequence[Candidate], samples: float) -> Iterator[Wanted]:
        """The leading ones first: what costs much more than these is broken off."""
        for each in field:
            yield each, self.found.scenario.seed, self.found.steps(each, samples), LEEWAY * self.found.best

    def _possible(self) -> list[Candidate]:
        field = []
        found = self.found
        for few in found.space.first():
            many = replace(few, workers=max(found.space.workers))
            chosen = many if found.impossible(few) else few
            if reason := found.impossible(chosen):
                found.refused[few] = reason
            else:
                field.append(chosen)
        return field

    def _leaders(self, field: Sequence[Candidate], samples: float) -> list[Candidate]:
        """Those that run in the next heat, for so many samples."""
        found, alive = self.found, []
        for candidate in field:
            if (reason := self._reason(candidate)) is not None:
                found.refused.setdefault(candidate, reason)
            elif found.cost_of(candidate) == math.inf or found.cost_of(candidate) <= LEEWAY * found.best:
                alive.append(candidate)
        curves = {each: training.curve for each in alive if (training := found.training(each)) is not None}
        race = Race(list(curves.values()), found.scenario.target)
        flat = [each for each in alive if race.undecided(curves[each])]
        alive = sorted((each for each in alive if each not in flat), key=lambda each: self._order(each, race))
        fitting = int(_NEXT_HEAT * max(0.0, self.budget.left(_RACED_BY)) / (samples * self._seconds_per_sample()))
        kept = min(max(_FIELD, -(-len(field) // _KEPT)), max(_LEAST_FIELD, fitting - len(flat)))
        for candidate in (each for each in alive[kept:] if found.cost_of(each) == math.inf):
            self.passed[candidate] = self._order(candidate, race)
            found.refused[candidate] = f"others lead after {curves[candidate][-1].samples:.3g} samples, as their papers have them"
        return [*alive[:kept], *flat]

    def _seconds_per_sample(self) -> float:
        """Of real time, so far: all cores together."""
        trained = sum(training.samples for runs in self.found.trainings.values() for training in runs.values())
        return max(_INSTANT, self.budget.spent()) / max(1.0, trained)

    def _reason(self, candidate: Candidate) -> str | None:
        """Why the candidate is not followed any further; None where it is."""
        training = self.found.training(candidate)
        if training is None:
            return _LATE
        if candidate in self.found.refused or training.error:
            return self.found.refused.get(candidate, training.error)
        if training.over and training.end is None:
            return f"its training ended after {training.samples:.3g} samples, and had not come to the target"
        if training.end is not None:
            return None
        if training.cut or self.found.least(candidate) > LEEWAY * self.found.best:
            rate = show_seconds(training.seconds / max(1.0, training.samples))
            return f"a sample takes {rate}: on the fewest samples that any needed it would still cost more than the best"
        return None

    def _order(self, candidate: Candidate, race: Race) -> float:
        """What it is expected to cost: as it did where it came to the target, else by how far it is beside the others."""
        training = self.found.training(candidate)
        if training is None or training.end is not None:
            return self.found.cost_of(candidate)
        efficiency = race.efficiency(training.curve)
        return training.cost_of(race.needed / efficiency, self.found.objective, candidate.workers) if efficiency else math.inf

    def revisited(self, field: list[Candidate]) -> list[Candidate]:
        """The field, and of those that early curves ruled out such as come to the target before they cost much more than the best.

        Early curves err; once the best is known, most of these runs are soon broken off.
        """
        found = self.found
        if found.best == math.inf:
            return field
        again, seed = sorted(self.passed, key=self.passed.__getitem__), found.scenario.seed
        compared: Wanted = ALONE, seed, found.steps(ALONE, found.samples), math.inf
        others = ((each, seed, found.steps(each, found.samples), LEEWAY * found.best) for each in again)
        self.make(itertools.chain([compared], others), _REVISITED_BY, _DRAWN_BY)
        there = [each for each in again if found.cost_of(each) < math.inf]
        for each in there:
            found.refused.pop(each, None)
        return sorted([*field, *there], key=found.expected)

    # The optimiser, and further seeds

    def draw(self, field: Sequence[Candidate]) -> None:
        """Draw options, numbers of workers and settings of the systems that came furthest, until time is up or nothing improves."""
        if field and self.budget.left(_DRAWN_BY) > 0:
            draws = Draws(self.found, field, lambda: self.budget.left(_DRAWN_BY), self.budget.deadline(_BROKEN_OFF_BY))
            self.pool(draws.done).work(draws.plans())

    def confirm(self) -> None:
        """Run the best, and one worker alone, under further seeds, for more samples than they needed under the first."""
        found = self.found
        best = [each for each in found.ranked() if each not in found.refused][: self.confirmed]
        samples = 2 * found.fewest if found.fewest < math.inf else found.samples
        alone: list[Wanted] = [(ALONE, seed, found.steps(ALONE, samples), math.inf) for seed in self.all_seeds]
        wanted: list[Wanted] = []
        for seed in self.all_seeds[1:]:
            for each in best:
                needed = found.steps(each, _LONGER * min(found.needed(each), found.samples * _PARTS[-1]))
                wanted.append((each, seed, needed, 2 * LEEWAY * found.cost_of(each)))
            wanted.append(alone.pop(0))
        self.make([*wanted, *alone], _CONFIRMED_BY)

    def make(self, wanted: Iterable[Wanted], until: float, off: float = 1.0) -> None:
        """Run candidates where no run is known that went as far: none begins after part `until` of the time, or ends after part `off`."""
        made: list[tuple[Candidate, int, int]] = []
        deadline = self.budget.deadline(off)

        def plans() -> Iterator[tuple[int, Task, Path | None]]:
            for candidate, seed, steps, most in wanted:
                if self.found.take_kept(candidate, seed, steps, most):
                    continue
                if self.budget.left(until) > 0 and self._fits(candidate, steps, until):
                    made.append((candidate, seed, steps))
                    yield len(made) - 1, self.found.task(candidate, seed, steps, most, deadline), None

        def done(place: int, attempt: Attempt) -> None:
            self.found.keep(*made[place], attempt)

        self.pool(done).work(plans())

    def _fits(self, candidate: Candidate, steps: int, until: float) -> bool:
        """Whether so many steps should be over in time, as far as runs tell: short runs say little of one that is far longer."""
        if self.found.real_seconds(candidate, steps) <= max(self.budget.left(until), self.budget.left() / 2):
            return True
        samples = [training.samples for runs in self.found.trainings.values() for training in runs.values()]
        return steps * candidate.workers * self.found.batch(candidate) > _FAR_LONGER * max(samples, default=0.0)
