"""The waits, the risks and the remedies of the best candidates: short runs on machines with one thing changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from polyrhythm.core.strategy.crew_policy import CrewPolicy
from polyrhythm.core.training.run import Attempt
from polyrhythm.errors import BrokenOff
from polyrhythm.tools.planner.answer import CrewRisk, Remedy, Waits
from polyrhythm.tools.planner.budget import Budget
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.circumstances import REMEDIES, RISKS, Circumstance
from polyrhythm.tools.planner.crew_risk import Rehearsed, crew_risk
from polyrhythm.tools.planner.crew_runs import CrewTask, standstills
from polyrhythm.tools.planner.findings import Findings
from polyrhythm.tools.planner.interruptions import Interruptions
from polyrhythm.tools.planner.scenario import Scenario
from polyrhythm.tools.pools.pools import Done, Followed, Pool, RunTask, work

_PART = 8
"""These runs have a part of the samples that the target took."""
_LEAST_STEPS = 20
"""But at least so many steps, so that systems that exchange every 16 steps have done so."""
_EXCHANGES = 5
"""Where workers exchange seldom, so many exchanges: some before the crew changes, and between its changes."""
_NOTICED = 0.97
"""A remedy is named if the time to the target falls below this part."""


@dataclass(slots=True)
class Outlook:
    """`pool` makes its runs; after the `budget` none is started, and those under way are broken off."""

    found: Findings
    pool: Callable[[Done], Pool]
    budget: Budget
    rates: dict[tuple[Candidate, str], float | None] = field(default_factory=dict)
    crews: dict[Candidate, Rehearsed] = field(default_factory=dict)

    def look(self, candidates: Sequence[Candidate], circumstances: Mapping[str, Circumstance]) -> None:
        """Measure the seconds that a sample takes, as things are and in each of these circumstances."""
        every = {"": _as_it_is, **circumstances}
        work(self.pool, self._runs((each, name, circumstance) for name, circumstance in every.items() for each in candidates))

    def change_crews(self, candidates: Sequence[Candidate]) -> None:
        """Measure for how long the others stand still when a worker is lost, or joins."""
        work(self.pool, self._crew_runs(candidates))

    def crew(self, candidate: Candidate, whole: float, given: Interruptions | None) -> CrewRisk | None:
        """The risk of a crew that changes, where training to the target takes `whole` seconds; None where nothing is known."""
        return crew_risk(self.found, candidate, self.crews.get(candidate, Rehearsed()), whole, given)

    def factor(self, candidate: Candidate, name: str) -> float | None:
        """The factor on the time that a sample takes; None where the run fails, or is not known."""
        here, there = self.rates.get((candidate, "")), self.rates.get((candidate, name))
        return None if not here or there is None else there / here

    def waits(self, candidate: Candidate) -> Waits | None:
        """The parts of the time to the target; None where it was not measured."""
        training, quick, instant = self.found.training(candidate), self.factor(candidate, "bandwidth"), self.factor(candidate, "network")
        if quick is None or instant is None or training is None or training.end is None:
            return None
        compute = min(1.0, instant)
        latency = max(0.0, min(1.0, quick) - compute)
        useful = min(1.0, self.found.fewest / training.end.samples) if training.end.samples else 1.0
        return Waits(compute * useful, latency * useful, (1 - compute - latency) * useful, 1 - useful)

    def risks(self, candidate: Candidate) -> dict[str, float | None]:
        """The factors of the risks by name, as far as they were measured."""
        return {name: self.factor(candidate, name) for name in RISKS if (candidate, name) in self.rates}

    def remedies(self, candidate: Candidate) -> list[Remedy]:
        """The changes that make it faster, the most helpful first."""
        factors = {name: self.factor(candidate, name) for name in REMEDIES}
        found = [Remedy(name, factor) for name, factor in factors.items() if factor is not None and factor < _NOTICED]
        return sorted(found, key=lambda each: each.factor)

    def _runs(self, wanted: Iterator[tuple[Candidate, str, Circumstance]]) -> Iterator[Followed]:
        for candidate, name, circumstance in wanted:
            if (candidate, name) not in self.rates and self.budget.left() > 0:
                task = self._task(candidate, circumstance)
                if task is not None:
                    yield task, partial(self._note, candidate, name)

    def _note(self, candidate: Candidate, name: str, attempt: Attempt) -> None:
        training = self.found.read(candidate, attempt, 0)
        if not training.cut:  # one for which time was short says nothing
            self.rates[candidate, name] = training.sample_seconds if not training.error and training.samples else None

    def _task(self, candidate: Candidate, circumstance: Circumstance) -> RunTask | None:
        found, training = self.found, self.found.training(candidate)
        if training is None:
            return None
        steps = max(_LEAST_STEPS, found.steps(candidate, (training.end or training).samples / _PART))
        task = found.task(candidate, found.scenario.seed, steps, float("inf"), self.budget.deadline())
        return task.elsewhere(circumstance(task.scenario, candidate.workers))

    def _crew_runs(self, candidates: Sequence[Candidate]) -> Iterator[Followed]:
        for candidate in candidates:
            training, policy = self.found.training(candidate), CrewPolicy.of(candidate.strategy)
            if candidate in self.crews or candidate.is_alone or not policy.joins or training is None or not training.samples:
                continue
            steps = max(_LEAST_STEPS, _EXCHANGES * policy.unsent)
            step = training.sample_seconds * self.found.per_step(candidate)
            for first in (False, True):
                if self.budget.left() > 0:
                    scenario, moments = self.found.charged(self.found.scenario, candidate), (step * steps / 3, 2 * step * steps / 3)
                    task = CrewTask(scenario, candidate, scenario.seed, steps, *moments, first, self.budget.deadline())
                    yield task, partial(self._note_crew, candidate)

    def _note_crew(self, candidate: Candidate, attempt: Attempt) -> None:
        if not isinstance(attempt.error, BrokenOff):
            own = self.crews.setdefault(candidate, Rehearsed())
            own.seconds.update(standstills(attempt))
            own.obstacle = own.obstacle or ("" if attempt.error is None else str(attempt.error))


def _as_it_is(here: Scenario, workers: int) -> Scenario:
    return here
