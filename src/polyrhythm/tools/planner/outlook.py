"""The waits, the risks and the remedies of the best candidates: short runs on machines with one thing changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from polyrhythm.core.training.run import Attempt
from polyrhythm.tools.planner.answer import Remedy, Waits
from polyrhythm.tools.planner.budget import Budget
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.circumstances import REMEDIES, RISKS, Circumstance
from polyrhythm.tools.planner.findings import Findings
from polyrhythm.tools.planner.scenario import Scenario
from polyrhythm.tools.pools.pools import Done, Followed, Pool, RunTask, work

_PART = 8
"""These runs have a part of the samples that the target took."""
_LEAST_STEPS = 20
"""But at least so many steps, so that systems that exchange every 16 steps have done so."""
_NOTICED = 0.97
"""A remedy is named if the time to the target falls below this part."""


@dataclass(slots=True)
class Outlook:
    """`pool` makes its runs; after the `budget` none is started, and those under way are broken off."""

    found: Findings
    pool: Callable[[Done], Pool]
    budget: Budget
    rates: dict[tuple[Candidate, str], float | None] = field(default_factory=dict)

    def look(self, candidates: Sequence[Candidate], circumstances: Mapping[str, Circumstance]) -> None:
        """Measure the seconds that a sample takes, as things are and in each of these circumstances."""
        every = {"": _as_it_is, **circumstances}
        work(self.pool, self._runs((each, name, circumstance) for name, circumstance in every.items() for each in candidates))

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
            self.rates[candidate, name] = training.seconds / training.samples if not training.error and training.samples else None

    def _task(self, candidate: Candidate, circumstance: Circumstance) -> RunTask | None:
        found, training = self.found, self.found.training(candidate)
        if training is None:
            return None
        steps = max(_LEAST_STEPS, found.steps(candidate, (training.end or training).samples / _PART))
        part = steps * candidate.workers * found.batch(candidate) / max(1.0, training.samples)
        task = found.task(candidate, found.scenario.seed, steps, float("inf"), self.budget.deadline())
        there = circumstance(task.scenario, candidate.workers, training.seconds * part)
        return task.elsewhere(there)


def _as_it_is(here: Scenario, workers: int, seconds: float) -> Scenario:
    return here
