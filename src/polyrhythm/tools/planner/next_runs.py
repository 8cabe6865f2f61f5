"""What a search runs next, and how far: what is most likely to change the answer for its cost in seconds by the clock."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from polyrhythm.tools.planner.beliefs import Belief, Beliefs
from polyrhythm.tools.planner.candidate import Candidate, Pairs
from polyrhythm.tools.planner.cells import SampleCell
from polyrhythm.tools.planner.findings import Findings
from polyrhythm.tools.planner.shared_curves import WARM_UP, SharedCurves
from polyrhythm.tools.planner.space import Space, options_of

_LEADING = 6
"""Other settings and options are considered of so many candidates."""
_SYSTEMS = 6
_PARTS = (1 / 64, 1 / 8)
"""A run may have these parts of the JOB's samples, or as many as are believed to be needed."""
_SURE = (0.3, 1.0)
"""These are so many deviations above the mean."""
MOST = 16.0
"""But at most so many times the JOB's samples."""
_FEW_STEPS = 6
"""The first run of a system has so many steps, or those of two exchanges."""
_START = 0.05
"""The seconds by the clock that every run takes to begin and to end, at the least."""
_FURTHER = 1.5
"""A run has at least so many times the samples of the one before."""
_BEGINS = 1 / 256
"""The first samples tell what is to come from this part of the JOB's on."""
_PARTLY = 0.7
"""A curve that has not come to the target tells at most this part of what its end does."""
_INSTANT = 1e-9


@dataclass(frozen=True, slots=True)
class NextRun:
    """A run of a candidate under a seed, for so many samples; `gain` is by how much it is expected to lower the logarithm of the cost."""

    candidate: Candidate
    seed: int
    samples: float
    gain: float
    seconds: float


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
    _paces: dict[str, float] = field(default_factory=dict)
    _start: float = _START
    _least: dict[tuple[str, Pairs, int], tuple[int, float]] = field(default_factory=dict)

    @property
    def found(self) -> Findings:
        """The findings of the search."""
        return self.shared.found

    def pool(self, leading: Sequence[Candidate]) -> list[Candidate]:
        """All that is considered: every system with every number of workers, and what is next to the `leading` candidates."""
        space, factors = self.found.space, self._beginning()
        every = [
            each.of(workers) for each in space.first(**factors) for workers in (space.together if not each.machines else (each.workers,))
        ]
        there = [each for each in leading if self.found.cost_of(each) < math.inf]  # of others nothing says that a variant would do better
        systems = list(dict.fromkeys(each.system for each in there if not each.is_alone))[:_SYSTEMS]
        near = [other for each in there[:_LEADING] for other in (*space.neighbours(each), *_batches(space, each))]
        own = list(other_options([next(each for each in there if each.system == system) for system in systems]))
        return [each for each in dict.fromkeys([*every, *leading, *near, *own]) if self.is_possible(each)]

    def is_possible(self, candidate: Candidate) -> bool:
        """True if it can be run here; asked once for each."""
        if candidate not in self._possible:
            reason = self.found.impossible(candidate)
            self._possible[candidate] = not reason
            if reason:
                self.skipped[candidate] = reason
        return self._possible[candidate]

    def choose(self, state: SearchState, left: float) -> NextRun | None:
        """The run with the largest gain for a second, of those that should be over in the time that is `left`; None where none gains."""
        best, self._paces = self._best(state.beliefs), {}
        wanted = [each for candidate in state.beliefs.pool for each in self._of(candidate, state, best)]
        fitting = [each for each in wanted if each.seconds <= left]
        return max(fitting, key=lambda each: each.gain / each.seconds, default=None)

    def _best(self, beliefs: Beliefs) -> list[Candidate]:
        """The candidates with the least mean costs, those that came to the target first."""
        offered = [each for each in beliefs.pool if self.found.offers(each) and each not in self.found.refused]
        return sorted(offered, key=lambda each: (not beliefs.of(each).reached, beliefs.of(each).mean))[:2]

    def _of(self, candidate: Candidate, state: SearchState, best: Sequence[Candidate]) -> Iterator[NextRun]:
        """The runs of a candidate that would tell something."""
        beliefs, seeds, busy = state.beliefs, state.seeds, state.busy
        found, belief, cell = self.found, beliefs.of(candidate), self.shared.cells.of(candidate)
        others = [each for each in best if each != candidate]
        if not self._open(candidate):
            return
        apart = abs(belief.mean - beliefs.of(others[0]).mean) if others else 0.0
        if belief.reached and belief.timed:
            seed = next((each for each in seeds if each not in found.trainings[candidate] and (cell, each) not in busy), None)
            if seed is not None:
                learned = beliefs.between_seeds / math.sqrt(belief.reached * (belief.reached + 1))
                yield self._next(candidate, seed, math.exp(belief.samples.mean + 0.5), learned, apart)
            return
        if (cell, seeds[0]) in busy:
            return
        first = self._first(candidate)
        if belief.reached:
            yield self._next(candidate, seeds[0], first, belief.deviation, apart)
            return
        ends = [math.exp(min(belief.samples.mean + z * belief.samples.deviation, 700.0)) for z in _SURE]
        for samples in dict.fromkeys([first, *(part * found.samples for part in _PARTS), *ends]):
            if max(first, _FURTHER * belief.taken) <= samples <= MOST * found.samples:
                yield self._next(candidate, seeds[0], samples, belief.deviation * self._told(belief, samples), apart)

    def _next(self, candidate: Candidate, seed: int, samples: float, learned: float, apart: float) -> NextRun:
        """The knowledge gradient (Frazier, Powell and Dayanik, 2008) of a run from which so much of the deviation is learned."""
        z = apart / max(learned, _INSTANT)
        gain = learned * (math.exp(-z * z / 2) / math.sqrt(2 * math.pi) - z * math.erfc(z / math.sqrt(2)) / 2)
        taken = self.found.steps(candidate, samples) * candidate.workers * self._pace(candidate)
        seconds = self._start + taken
        return NextRun(candidate, seed, samples, max(gain, 0.0), seconds)

    def _pace(self, candidate: Candidate) -> float:
        """The seconds by the clock of one step of one worker, after the start of a run: as of its system, or else of all."""
        if candidate.system not in self._paces:
            known = [(each, run) for each, runs in self.found.trainings.items() for run in runs.values() if run.real]
            self._start = max(_START, min((run.real for _, run in known), default=0.0))
            own = [(each, run) for each, run in known if each.system == candidate.system] or known
            steps = sum(run.samples / self.found.batch(each) for each, run in own)
            whole = sum(max(run.real - self._start, 0.0) for _, run in own)
            self._paces[candidate.system] = whole / steps if steps else 0.0
        return self._paces[candidate.system]

    def _told(self, belief: Belief, samples: float) -> float:
        """The part of the deviation that a run of so many samples takes away."""
        begins = math.log(max(belief.taken, _BEGINS * self.found.samples, 1.0))
        way = (math.log(samples) - begins) / max(belief.samples.mean - begins, 0.1)
        z = (math.log(samples) - belief.samples.mean) / max(belief.samples.deviation, _INSTANT)
        there = math.sqrt(math.erfc(-z / math.sqrt(2)) / 2)
        unknown_pace = 0.0 if belief.timed else min(1.0, belief.pace.deviation / max(belief.deviation, _INSTANT))
        return min(1.0, math.hypot(max(_PARTLY * min(1.0, max(way, 0.0)), there), _PARTLY * unknown_pace))

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
        return max(float(steps * candidate.workers * self.found.batch(candidate)), shortest)

    def _beginning(self) -> dict[str, float]:
        """The best settings of one worker alone, with half the rate where that is above the JOB's own: many systems bear less."""
        best = self.found.best_alone
        if self.found.cost_of(best) == math.inf:
            return {}
        known = {name: value for name, value in self.found.space.factors(best).items() if name in ("rate", "length")}
        return {name: value / 2 if name == "rate" and value >= 2 else value for name, value in known.items()}


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
