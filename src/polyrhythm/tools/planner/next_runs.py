"""What a search runs next, and how far: what is most likely to change the answer for its cost in seconds by the clock."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from polyrhythm.tools.planner.beliefs import Beliefs
from polyrhythm.tools.planner.candidate import Candidate, Pairs
from polyrhythm.tools.planner.cells import SampleCell
from polyrhythm.tools.planner.early_end import Prospect
from polyrhythm.tools.planner.findings import Findings
from polyrhythm.tools.planner.run_times import RunTimes
from polyrhythm.tools.planner.shared_curves import WARM_UP, SharedCurves
from polyrhythm.tools.planner.space import Space, options_of
from polyrhythm.tools.planner.tasks import BEYOND

_LEADING = 6
"""Other settings and options are considered of so many candidates."""
_SYSTEMS = 6
_SURELY = 1.5
"""A whole run goes so many deviations beyond the samples that are believed to be needed."""
_CLEARLY = 1.2
"""But not beyond so many times the cost of the present answer."""
MOST = 16.0
"""But at most so many times the JOB's samples."""
_NEAR, _BEGINNINGS = 1.25, 2
"""Systems begin with settings of one worker alone that cost it at most so many times its best, and with so many of these."""
_FEW_STEPS = 6
"""The first run of a system has so many steps, or those of two exchanges."""
_FURTHER = 1.5
"""A run has at least so many times the samples of the one before."""
_HOPELESS_AFTER = 0.4
"""A run that does not come to the target in time shows that in this part of the samples."""
_INSTANT = 1e-9


@dataclass(frozen=True, slots=True)
class NextRun:
    """A run of a candidate under a seed, for so many samples.

    By `gain` the candidate is expected to lower the logarithm of the cost, and by the `prospect` the run ends early. It should take so many
    `seconds` by the clock.
    """

    candidate: Candidate
    seed: int
    samples: float
    gain: float
    seconds: float
    prospect: Prospect | None = None


@dataclass(frozen=True, slots=True)
class SearchState:
    """The state of a search: its beliefs, the seeds that it may use, the first before all others, and what is under way."""

    beliefs: Beliefs
    seeds: Sequence[int]
    busy: Collection[tuple[SampleCell, int]]


@dataclass(slots=True)
class NextRuns:
    """Chooses runs for `found`; `skipped` are candidates that cannot be run, and why."""

    shared: SharedCurves
    skipped: dict[Candidate, str] = field(default_factory=dict)
    _possible: dict[Candidate, bool] = field(default_factory=dict)
    _times: RunTimes = field(init=False)
    _least: dict[tuple[str, Pairs, int], tuple[int, float]] = field(default_factory=dict)

    @property
    def found(self) -> Findings:
        """The findings of the search."""
        return self.shared.found

    def pool(self, leading: Sequence[Candidate]) -> list[Candidate]:
        """All that is considered: every system with every number of workers, and what is next to the `leading` candidates."""
        space = self.found.space
        first = [each for factors in self._beginning() for each in space.first(**factors)]
        every = [each.of(workers) for each in first for workers in (space.together if not each.machines else (each.workers,))]
        there = [each for each in leading if self.found.cost_of(each) < math.inf]  # of others nothing says that a variant would do better
        systems = list(dict.fromkeys(each.system for each in there if not each.is_alone))[:_SYSTEMS]
        near = [other for each in there[:_LEADING] for other in (*space.neighbours(each), *_batches(space, each))]
        own = list(other_options([next(each for each in there if each.system == system) for system in systems]))
        return [each for each in dict.fromkeys([*every, *leading, *near, *own]) if self.is_possible(each)]

    def is_possible(self, candidate: Candidate) -> bool:
        """True if it can be run here; asked once for each system with its options and machines."""
        plain = replace(candidate, settings=())
        if plain not in self._possible:
            reason = self.found.impossible(plain)
            self._possible[plain] = not reason
            if reason:
                self.skipped[plain] = reason
        return self._possible[plain]

    def choose(self, state: SearchState, left: float) -> NextRun | None:
        """The run with the largest gain for a second, of those that should be over in the time that is `left`; None where none gains."""
        best, self._times = self._best(state.beliefs), self.found.run_times
        if not best:
            return None
        wanted = [each for candidate in state.beliefs.pool for each in self._of(candidate, state, best)]
        fitting = [each for each in wanted if each.seconds <= left] or [each for one in wanted for each in self._shortened(one, left)]
        return max(fitting, key=lambda each: each.gain / each.seconds, default=None)

    def _best(self, beliefs: Beliefs) -> list[Candidate]:
        """The candidates with the least mean costs, those that came to the target first."""
        offered = [each for each in beliefs.pool if self.found.offers(each) and each not in self.found.refused]
        return sorted(offered, key=lambda each: (not beliefs.of(each).reached, beliefs.of(each).mean))[:2]

    def _of(self, candidate: Candidate, state: SearchState, best: Sequence[Candidate]) -> Iterator[NextRun]:
        """The runs of a candidate that would tell something."""
        beliefs, seeds, busy = state.beliefs, state.seeds, state.busy
        found, belief, cell = self.found, beliefs.of(candidate), self.shared.cells.of(candidate)
        if not self._open(candidate):
            return
        if belief.reached and belief.timed:
            seed = next((each for each in seeds if each not in found.trainings[candidate] and (cell, each) not in busy), None)
            if seed is not None:
                others = [each for each in best if each != candidate]
                apart = abs(belief.mean - beliefs.of(others[0]).mean) if others else 0.0
                learned = beliefs.between_seeds / math.sqrt(belief.reached * (belief.reached + 1))
                samples = math.exp(belief.samples.mean + 0.5)
                yield NextRun(candidate, seed, samples, _knowledge_gradient(learned, apart), self._seconds(candidate, samples))
            return
        if (cell, seeds[0]) in busy:
            return
        first, answer = self._first(candidate), self._answer(beliefs, best)
        gain, likely = beliefs.improvement(candidate, answer)
        if belief.reached:
            yield NextRun(candidate, seeds[0], first, gain, self._seconds(candidate, first))
            return
        least = max(first, _FURTHER * belief.taken)
        whole = max(least, min(self._settled(candidate, beliefs, answer), MOST * found.samples))
        expected = min(whole, max(least, BEYOND * math.exp(belief.samples.mean)))
        seconds = (likely + (1 - likely) * _HOPELESS_AFTER) * self._seconds(candidate, expected)
        yield NextRun(candidate, seeds[0], whole, gain, seconds, Prospect(beliefs.curves, belief.samples, whole, least))

    def _shortened(self, run: NextRun, left: float) -> Iterator[NextRun]:
        """A part of a run that takes longer than the time that is left, if that is enough to go further than before."""
        samples = run.samples * max(0.0, left) / run.seconds
        if run.prospect is not None and samples >= run.prospect.least:
            yield replace(run, samples=samples, gain=run.gain * samples / run.samples, seconds=left)

    def _settled(self, candidate: Candidate, beliefs: Beliefs, answer: float) -> float:
        """The samples after which it has cost more than the answer, or should have come to the target."""
        samples = beliefs.of(candidate).samples
        likely = math.exp(min(samples.mean + _SURELY * samples.deviation, 700.0))
        return min(likely, beliefs.samples_for(candidate, _CLEARLY * math.exp(answer)))

    def _seconds(self, candidate: Candidate, samples: float) -> float:
        """The seconds of a run by the clock."""
        return self._times.seconds(candidate, self.found.steps(candidate, samples))

    @staticmethod
    def _answer(beliefs: Beliefs, best: Sequence[Candidate]) -> float:
        """The logarithm of what the present answer costs; before there is one, what the most promising may well cost."""
        belief = beliefs.of(best[0])
        return belief.mean if belief.reached else belief.mean + belief.deviation

    def _open(self, candidate: Candidate) -> bool:
        """True if further runs of it would tell anything."""
        training = self.found.training(candidate)
        if candidate in self.found.refused:
            return False
        if training is None or training.end is not None:
            return True
        settled = training.limit >= WARM_UP or self.shared.cells.lockstep(candidate) is not None
        dear = settled and self.found.least(candidate) > self.found.worth
        return not (training.error or training.cut or training.over or dear)

    def _first(self, candidate: Candidate) -> float:
        """The samples of its first run: enough for a few exchanges, and for whole epochs where it has to have these."""
        key = candidate.system, candidate.options, candidate.workers
        if key not in self._least:
            found = self.shared.cells.lockstep(candidate)
            between = found.clocks[0] if found is not None and found.clocks else 1
            steps = max(_FEW_STEPS, 2 * between + 1) if between > 1 else _FEW_STEPS
            self._least[key] = steps, self.found.shortest(candidate)
        steps, shortest = self._least[key]
        return max(steps * self.found.per_step(candidate), shortest)

    def _beginning(self) -> list[dict[str, float]]:
        """The rates and lengths with which one worker alone does about as well as with its best, and half the best rate where that is above
        the JOB's own: many systems bear less.
        """
        found, best = self.found, self.found.best_alone
        cost = found.cost_of(best)
        if cost == math.inf:
            return [{}]
        near = sorted((each for each in found.trainings if each.is_alone and found.cost_of(each) <= _NEAR * cost), key=found.cost_of)
        every = [{name: value for name, value in found.space.factors(each).items() if name in ("rate", "length")} for each in (best, *near)]
        first = [each for place, each in enumerate(every) if each not in every[:place]][:_BEGINNINGS]
        half = {**every[0], "rate": every[0].get("rate", 0.0) / 2}
        return [*first, half] if half["rate"] >= 1 and half not in first else first


def _knowledge_gradient(learned: float, apart: float) -> float:
    """What is gained by learning so much of the deviation of one that lies so far from the next (Frazier, Powell and Dayanik, 2008)."""
    z = apart / max(learned, _INSTANT)
    return max(0.0, learned * (math.exp(-z * z / 2) / math.sqrt(2 * math.pi) - z * math.erfc(z / math.sqrt(2)) / 2))


def _batches(space: Space, candidate: Candidate) -> Iterator[Candidate]:
    """The candidate with half and twice its batch."""
    if "batch" in space.varied:
        known, factors = space.factors(candidate), space.varied["batch"][2]
        for factor in (2.0, 0.5):
            if min(factors) <= factor * known["batch"] <= max(factors):
                rest = {name: known[name] for name in space.varied}
                yield space.changed(candidate, **{**rest, "batch": factor * known["batch"]})


def other_options(leading: Sequence[Candidate]) -> Iterator[Candidate]:
    """Each of the candidates with one option changed, and in the same groups."""
    for candidate in leading:
        known = dict(candidate.options)
        for key, values in options_of(candidate.system).items():
            for value in values:
                if value != known.get(key, values[0]):
                    kept = {name: each for name, each in known.items() if name != key}
                    options = kept if value == values[0] else {**kept, key: value}
                    changed = replace(candidate, options=tuple(options.items()))
                    yield changed.on(changed.machines) if changed.machines.groups else changed
