"""One machine alone, tuned before the others: its runs are cheap, and say whether anything is to be gained by more machines."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from polyrhythm.tools.planner.candidate import ALONE, Candidate
from polyrhythm.tools.planner.findings import LEEWAY, Findings

Wanted = tuple[Candidate, int, int, float]
"""A candidate, a seed, how many steps, and the cost at which its run is broken off."""
Make = Callable[[Iterable[Wanted]], None]
"""Makes runs while there is time for this stage."""

_PARTS = (1 / 64, 1 / 8, 1.0, 8.0)
"""Rates are first tried on these parts of the JOB's samples."""
_KEPT = (3, 2, 2)
"""So many continue with the next part."""
_ROUNDS = 6
"""The settings next to the best are tried so many times at most."""


@dataclass(slots=True)
class AloneTuning:
    """Draws rates, batches and, where the schedule depends on it, lengths for one worker; `left` says how many seconds are left for it."""

    found: Findings
    make: Make
    left: Callable[[], float]

    def run(self) -> None:
        """Try them, the rates first, until nothing next to the best is better."""
        self._rates()
        for _ in range(_ROUNDS):
            best = self.found.best_alone
            fresh = [each for each in self._next_to(best) if each not in self.found.trainings]
            if not fresh or self.left() <= 0:
                return
            self._make(fresh, _PARTS[-1])

    def _rates(self) -> None:
        """Try all learning rates on a part of the samples, and continue with a few of the best on more."""
        own, varied = ALONE, self.found.space.varied
        rates = varied["rate"][2] if "rate" in varied else ()
        field = [own, *(self.found.space.changed(own, rate=factor) for factor in sorted(rates, key=_nearness) if factor != 1.0)]
        for part, kept in zip(_PARTS, (*_KEPT, 1), strict=True):
            self._make(field, part)
            field = sorted(field, key=self._order)[:kept]

    def _make(self, field: Sequence[Candidate], part: float) -> None:
        found = self.found
        self.make(self._wanted(found, field, part))

    @staticmethod
    def _wanted(found: Findings, field: Sequence[Candidate], part: float) -> Iterable[Wanted]:
        for each in field:
            yield each, found.scenario.seed, found.steps(each, part * found.samples), LEEWAY * found.cost_of(found.best_alone)

    def _next_to(self, best: Candidate) -> list[Candidate]:
        space, known = self.found.space, self.found.space.factors(best)
        others = [
            space.changed(best, **{name: factor * known[name]})
            for name, (_, _, factors) in space.varied.items()
            for factor in (2.0, 0.5)
            if min(factors) <= factor * known[name] <= max(factors)
        ]
        return [each for each in dict.fromkeys(others) if not self.found.impossible(each)]

    def _order(self, candidate: Candidate) -> tuple[float, float]:
        """The sort key of a candidate: its cost to the target; without that, its distance from the target."""
        training, target = self.found.training(candidate), self.found.scenario.target
        value = None if training is None or training.error else training.best(target)
        if value is None or not math.isfinite(value):
            return math.inf, math.inf
        return self.found.cost_of(candidate), -value if target.higher_is_better else value


def _nearness(factor: float) -> float:
    return abs(math.log(factor))
