"""The optimiser's part of a search: it draws candidates, and gets the cost of each."""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from polyrhythm.core.training.run import Attempt
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.findings import LEEWAY, Findings
from polyrhythm.tools.planner.measured import TrainedRun
from polyrhythm.tools.pools.pools import Followed

if TYPE_CHECKING:
    from optuna import Study, Trial

_SHORTLIST = 6
"""The sampler draws among so many systems: those that came furthest as their papers have them."""
_NEIGHBOURS = 3
"""It begins with other numbers of workers and rates of so many of these, and continues with those of each new best."""
_SAMPLES = 1.3
"""A run has so many times the samples that its system has needed so far."""
_NOT_REACHED = 1.0
"""Added to the logarithm of the cost of a run that did not reach the target."""
_UNKNOWN = 100.0
"""The value of a run whose cost nothing tells: above the logarithm of every cost. The sampler only compares values."""
_ENOUGH = 32
"""The draws end after so many in a row that did not improve on the best, or that are known."""
_LEAST = 1e-9


class Draws:
    """A study of Optuna (Akiba et al., 2019): trees of Parzen estimators over options and settings of the systems that lead `field`.

    `left` says how many seconds are left for draws, `deadline` when their runs are broken off; `since` how many have ended since the
    best improved, and `exhausted` that draws ended because of this, or because all was known, and not for want of time.
    """

    def __init__(self, search: Findings, field: Sequence[Candidate], left: Callable[[], float], deadline: float) -> None:
        self.search = search
        self.left = left
        self.deadline = deadline
        names = tuple(dict.fromkeys(each.system for each in field))[:_SHORTLIST]
        self.space = replace(search.space, systems=names)
        self.study = _study(search.scenario.seed)
        self.failed = _optuna().trial.TrialState.FAIL
        self.seen: set[Candidate] = set()
        self.since = 0
        self.exhausted = False
        for candidate in field:
            training = search.training(candidate)
            if candidate.system in names and training is not None:
                self.seen.add(candidate)
                self.study.enqueue_trial(self.space.parameters(candidate))
                trial = self.study.ask()
                self.space.drawn(trial)
                self.study.tell(trial, self._value(candidate, training))
        for candidate in [each for each in field if each.system in names][:_NEIGHBOURS]:
            self._next_to(candidate)

    def runs(self) -> Iterator[Followed]:
        """Runs of the candidates that are drawn, without those that are known."""
        search, known, too_long, seed = self.search, 0, 0, self.search.scenario.seed
        while self.left() > 0 and known + too_long < _ENOUGH and (self.since < _ENOUGH or search.best == math.inf):
            trial = self.study.ask()
            candidate = self.space.drawn(trial)
            if candidate in self.seen or search.impossible(candidate):
                known += 1
                self.study.tell(trial, state=self.failed)
                continue
            steps = search.steps(candidate, min(_SAMPLES * self._needed(candidate.system), 2 * search.samples))
            if search.real_seconds(candidate, steps) > self.left():
                self.study.tell(trial, state=self.failed)
                too_long += 1
                continue
            self.seen.add(candidate)
            known, too_long, most = 0, 0, search.worth
            if search.take_kept(candidate, seed, steps, most):
                self._tell(trial, candidate)
            else:
                yield search.task(candidate, seed, steps, most, self.deadline), partial(self._done, trial, candidate, steps)
        self.exhausted = self.left() > 0 and not too_long

    def _needed(self, system: str) -> float:
        """The fewest samples that any candidate of the system has needed, as far as the curves tell; infinite where they do not."""
        return min((self.search.needed(each) for each in self.search.trainings if each.system == system), default=math.inf)

    def _done(self, trial: Trial, candidate: Candidate, steps: int, attempt: Attempt) -> None:
        self.search.keep(candidate, self.search.scenario.seed, steps, attempt)
        self._tell(trial, candidate)

    def _tell(self, trial: Trial, candidate: Candidate) -> None:
        training = self.search.training(candidate)
        if training is None or training.error or candidate in self.search.refused:
            self.study.tell(trial, state=self.failed)
            return
        cost = self.search.cost_of(candidate)
        self.study.tell(trial, self._value(candidate, training))
        self.since += 1
        if cost < math.inf and cost <= self.search.best:
            self.since = 0
            self._next_to(candidate)

    def _next_to(self, candidate: Candidate) -> None:
        """Let the candidates that differ from this one in one thing be drawn next."""
        for other in self.space.neighbours(candidate):
            self.study.enqueue_trial(self.space.parameters(other), skip_if_exists=True)

    def _value(self, candidate: Candidate, training: TrainedRun) -> float:
        """The value that the optimiser minimizes: the logarithm of the cost, and more where the target was not reached."""
        search, cost = self.search, self.search.cost_of(candidate)
        if cost < math.inf:
            return math.log(max(cost, _LEAST))
        expected = search.expected(candidate)
        if expected == math.inf:
            expected = max(training.cost_of(search.fewest, search.objective_of(candidate), candidate.workers), LEEWAY * search.best)
        return _NOT_REACHED + math.log(max(expected, _LEAST)) if expected < math.inf else _UNKNOWN


def _study(seed: int) -> Study:
    optuna = _optuna()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=12, multivariate=True, group=True, constant_liar=True)
    made: Study = optuna.create_study(direction="minimize", sampler=sampler)
    return made


def _optuna() -> Any:
    """Imported when something is drawn: it takes a second, for which other commands need not wait."""
    return importlib.import_module("optuna")
