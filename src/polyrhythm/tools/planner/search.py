"""The search: short runs of all systems, longer ones of those that lead, then what an optimiser draws around these, and further seeds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from statistics import median

from polyrhythm.core.units import show_seconds
from polyrhythm.tools.planner.alone import AloneTuning, Wanted
from polyrhythm.tools.planner.budget import Budget
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.curves import Race
from polyrhythm.tools.planner.draws import Draws
from polyrhythm.tools.planner.findings import LEEWAY, Findings
from polyrhythm.tools.planner.measured import TrainedRun
from polyrhythm.tools.pools.pools import Done, Followed, Pool, work

_PARTS = (1 / 64, 1 / 8, 1.0, 2.0, 4.0, 8.0, 16.0)
"""The heats have these parts of the JOB's samples."""
_KEPT = 4
"""A heat leaves one in so many, or fewer: as many as the next heat can run in this part of the time that is left for heats."""
_NEXT_HEAT = 0.6
_LEAST_FIELD = 4
"""But at least so many, and this many where time allows."""
_FIELD = 8
_ALONE = 0.2
"""One machine alone is tuned for this part of the time."""
_RACED_BY = 0.45
"""Heats are to be over by this part of the time; where no system has come to the target, they continue instead of draws."""
_REVISITED_BY = 0.62
"""Then runs begin of those that heats ruled out; draws and further seeds follow."""
_DRAWN_BY = 0.78
_BROKEN_OFF_BY = 0.84
"""Draws are broken off then."""
_CONFIRMED_BY = 0.92
_HOPELESS = 2.0
"""What was ruled out is not tried again if the fewest samples would cost so many times what runs are broken off at."""
_INSTANT = 1e-6
_SLOW_TO_RUN = 4.0
"""A candidate whose run takes so many times as long by the clock as the median of its heat waits until the heats are over."""
_FAR_LONGER = 2.0
_LONGER = 1.35
_AGAIN = 2.0
"""A run under another seed may take so many times the samples; as many as it may cost, where that takes a small part of the time left."""
_SMALL_PART = 1 / 8
_LATE = "the time was up before it was tried: give a longer --budget"


@dataclass(slots=True)
class Search:
    """`budget` is how long it may take; `confirmed` of the best candidates are run under `seeds` further seeds."""

    found: Findings
    pool: Callable[[Done], Pool]
    budget: Budget
    confirmed: int = 3
    seeds: int = 2
    passed: list[Candidate] = field(default_factory=list)
    """Those that early curves ruled out."""
    drawn_out: bool = False
    """Whether draws ended because nothing better was found, and not because the time was up."""

    def run(self) -> None:
        """Search. What is known by then stays in `found` if this is interrupted."""
        by = min(_RACED_BY, self.budget.spent() / self.budget.seconds + _ALONE)
        AloneTuning(self.found, lambda wanted: self.make(wanted, by), lambda: self.budget.left(by)).run()
        field = self.heats()
        if not self.found.measured:
            return  # the JOB does not give the metric: more of it will not either
        work(self.pool, itertools.chain(self.again(field), self.draws(field)))  # draws begin while the last of those run
        self._settle()
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
            if not field or self.budget.left(_DRAWN_BY) <= 0:
                break
            waiting = [each for each in field if found.shortest(each) > part * found.samples]
            running = self._quick_to_run([each for each in field if each not in waiting], part * found.samples)
            self.make(self._heat(running, part * found.samples), _DRAWN_BY)
            field = [*self._leaders(running, following * found.samples), *waiting]
            if part == _PARTS[0]:
                field = [each.of(max(found.space.workers)) for each in field]
            if found.best < math.inf or (part >= 1.0 and not found.measured):
                break
        untried = [each for each in field if found.training(each) is None]
        found.refused.update(dict.fromkeys(untried, _LATE))
        self.passed.extend(untried)
        return [each for each in field if each not in untried]

    def _heat(self, field: Sequence[Candidate], samples: float) -> Iterator[Wanted]:
        """The leading ones first: what costs much more than these is broken off."""
        for each in field:
            yield each, self.found.scenario.seed, self.found.steps(each, samples), self.found.worth

    def _possible(self) -> list[Candidate]:
        field = []
        found = self.found
        for few in found.space.first(**self._beginning()):
            many = few.of(max(found.space.workers))
            chosen = many if found.impossible(few) else few
            if reason := found.impossible(chosen):
                found.refused[few] = reason
            else:
                field.append(chosen)
        return field

    def _beginning(self) -> dict[str, float]:
        """The best settings of one worker alone, with half the rate where that is above the JOB's own: many systems bear less."""
        best = self.found.best_alone
        if self.found.cost_of(best) == math.inf:
            return {}
        known = {name: value for name, value in self.found.space.parameters(best).items() if name in ("rate", "length")}
        return {name: value / 2 if name == "rate" and value >= 2 else value for name, value in known.items()}

    def _leaders(self, field: Sequence[Candidate], samples: float) -> list[Candidate]:
        """The candidates that run in the next heat, for so many samples."""
        found, alive = self.found, []
        for candidate in field:
            if (reason := self._reason(candidate)) is not None:
                found.refused.setdefault(candidate, reason)
            elif found.cost_of(candidate) == math.inf or found.cost_of(candidate) <= found.worth:
                alive.append(candidate)
        curves = {each: training.curve for each in alive if (training := found.training(each)) is not None}
        race = Race(list(curves.values()), found.scenario.target)
        flat = [each for each in alive if race.undecided(curves[each])]
        alive = sorted((each for each in alive if each not in flat), key=lambda each: self._order(each, race))
        left = self.budget.left(_RACED_BY)
        fitting = int(_NEXT_HEAT * (left if left > 0 else self.budget.left(_DRAWN_BY)) / (samples * self._seconds_per_sample()))
        kept = min(max(_FIELD, -(-len(field) // _KEPT)), max(_LEAST_FIELD if left > 0 else 1, fitting - len(flat)))
        for candidate in (each for each in alive[kept:] if found.cost_of(each) == math.inf):
            self.passed.append(candidate)
            found.refused[candidate] = f"others lead after {curves[candidate][-1].samples:.3g} samples, as their papers have them"
        return [*alive[:kept], *flat]

    def _quick_to_run(self, field: Sequence[Candidate], samples: float) -> list[Candidate]:
        """The candidates without those that would keep the others waiting, which are left for later."""
        seconds = {each: self.found.real_seconds(each, self.found.steps(each, samples)) for each in field}
        most = _SLOW_TO_RUN * median(seconds.values()) if seconds else 0.0
        slow = [each for each in field if seconds[each] > most]
        self.passed.extend(slow)
        self.found.refused.update((each, f"its run takes {show_seconds(seconds[each])} of this machine: {_LATE}") for each in slow)
        return [each for each in field if each not in slow]

    def _seconds_per_sample(self) -> float:
        """The real seconds of a sample so far: all cores together."""
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
        if training.cut or self.found.least(candidate) > self.found.worth:
            return self._dear(training)
        return None

    @staticmethod
    def _dear(training: TrainedRun) -> str:
        rate = show_seconds(training.seconds / max(1.0, training.samples))
        return f"a sample takes {rate}: on the fewest samples that any needed it would still cost more than the best"

    def _order(self, candidate: Candidate, race: Race) -> float:
        """Its expected cost: its real cost where it came to the target, else an estimate from its progress compared with the others."""
        training = self.found.training(candidate)
        if training is None or training.end is not None:
            return self.found.cost_of(candidate)
        efficiency = race.efficiency(training.curve)
        return training.cost_of(race.needed / efficiency, self.found.objective_of(candidate), candidate.workers) if efficiency else math.inf

    def again(self, field: Sequence[Candidate]) -> Iterator[Followed]:
        """Runs of those that the heats left open or ruled out by early curves, until they cost much more than the best.

        Early curves err. Those that are expected to cost least begin; once the best is known, most of the other runs are soon broken off.
        """
        found = self.found
        if found.worth == math.inf:
            return iter(())
        curves = {each: training.curve for each in found.trainings if (training := found.training(each)) is not None}
        race = Race(list(curves.values()), found.scenario.target)
        unsolved = [each for each in (*field, *self.passed) if found.cost_of(each) == math.inf]
        dear = [each for each in unsolved if found.least(each) > _HOPELESS * found.worth]
        found.refused.update((each, self._dear(training)) for each in dear if (training := found.training(each)) is not None)
        ordered = sorted((each for each in unsolved if each not in dear), key=lambda each: self._order(each, race))
        wanted = ((each, found.scenario.seed, self._whole(each), found.worth) for each in ordered)
        return self.wanted(wanted, _REVISITED_BY, _BROKEN_OFF_BY)

    def _settle(self) -> None:
        """Why those that were passed over and have run since did not come to the target."""
        found = self.found
        for each in self.passed:
            training = found.training(each)
            if training is not None and found.cost_of(each) == math.inf and found.fits(each):
                found.refused.pop(each, None)
                reason = self._reason(each)
                found.refused[each] = reason or f"it had not come to the target after {training.samples:.3g} samples"

    def _whole(self, candidate: Candidate) -> int:
        """Steps for the JOB's samples, or for as many as the curve tells to be needed."""
        found, needed = self.found, self.found.needed(candidate)
        most = _PARTS[-1] * found.samples
        return found.steps(candidate, max(found.samples, _LONGER * needed if needed < most else 0.0))

    # The optimiser, and further seeds

    def draws(self, field: Sequence[Candidate]) -> Iterator[Followed]:
        """Options, numbers of workers and settings of the systems that came furthest, until time is up or nothing improves."""
        there = [each for each in self.passed if self.found.cost_of(each) < math.inf and self.found.fits(each)]
        leading = sorted([*field, *there], key=self.found.expected)
        if leading and self._left_for_draws() > 0:
            draws = Draws(self.found, leading, self._left_for_draws, self.budget.deadline(_BROKEN_OFF_BY))
            yield from draws.runs()
            self.drawn_out = self.found.worth < math.inf and draws.exhausted
        elif not leading and self.found.worth < math.inf:
            self.drawn_out = True  # one worker alone is far ahead of all

    def _left_for_draws(self) -> float:
        """Seconds, of which the best by now keeps as many as one more run of it takes."""
        leading = self.found.ranked()[:1]
        again = max((self.found.real_seconds(each, self._further_steps(each)) for each in leading), default=0.0)
        return min(self.budget.left(_DRAWN_BY), self.budget.left(_CONFIRMED_BY) - again)

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
            chosen = list(dict.fromkeys([*compared, *(each for each in ranked if each not in confirmed)]))[: self.confirmed + len(compared)]
            confirmed.update([*chosen, alone])
            self.make((one for further in self.all_seeds[1:] for one in self._further(chosen, further)), _CONFIRMED_BY)

    def _further(self, candidates: Sequence[Candidate], seed: int) -> Iterator[Wanted]:
        for each in candidates:
            yield each, seed, self._further_steps(each), 2 * LEEWAY * self.found.cost_of(each)

    def _further_steps(self, candidate: Candidate) -> int:
        """Under a further seed."""
        found = self.found
        needed = min(found.needed(candidate), found.samples * _PARTS[-1])
        patient = found.steps(candidate, 2 * LEEWAY * needed)
        if found.real_seconds(candidate, patient) <= _SMALL_PART * self.budget.left():
            return patient
        return found.steps(candidate, _AGAIN * needed)

    def make(self, wanted: Iterable[Wanted], until: float, off: float = 1.0) -> None:
        """Run candidates where no run is known that went as far: none begins after part `until` of the time, or ends after part `off`."""
        work(self.pool, self.wanted(wanted, until, off))

    def wanted(self, wanted: Iterable[Wanted], until: float, off: float) -> Iterator[Followed]:
        """The runs that `make` makes."""
        deadline = self.budget.deadline(off)
        for candidate, seed, steps, most in wanted:
            if self.found.take_kept(candidate, seed, steps, most):
                continue
            if self.budget.left(until) > 0 and self._fits(candidate, steps, until):
                yield self.found.task(candidate, seed, steps, most, deadline), partial(self.found.keep, candidate, seed, steps)

    def _fits(self, candidate: Candidate, steps: int, until: float) -> bool:
        """True if so many steps should be over in time, as far as runs tell: short runs say little of one that is far longer."""
        if self.found.real_seconds(candidate, steps) <= max(self.budget.left(until), self.budget.left() / 2):
            return True
        samples = [training.samples for runs in self.found.trainings.values() for training in runs.values()]
        return steps * candidate.workers * self.found.batch(candidate) > _FAR_LONGER * max(samples, default=0.0)
