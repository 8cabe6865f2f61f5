"""What the samples that a candidate needs depend on: equal cells share one curve, and near ones teach each other."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from polyrhythm.tools.planner.candidate import Candidate, Pairs
from polyrhythm.tools.planner.chosen_machines import EVERY, ChosenMachines
from polyrhythm.tools.planner.lockstep import Lockstep
from polyrhythm.tools.planner.space import Space

LOCKSTEP = "lockstep"


@dataclass(frozen=True, slots=True)
class SampleCell:
    """Candidates of the same cell need the same samples under the same seed: those that are equal in lockstep, or a candidate itself."""

    lockstep: Lockstep | None
    workers: int
    settings: Pairs
    system: str = ""
    options: Pairs = ()
    machines: ChosenMachines = EVERY


@dataclass(slots=True)
class Cells:
    """The cells of candidates, each system looked at once."""

    _classes: dict[tuple[str, Pairs, int], Lockstep | None] = field(default_factory=dict)

    def lockstep(self, candidate: Candidate) -> Lockstep | None:
        """The class of a candidate whose pieces fit; None where its weights depend on more."""
        key = candidate.system, candidate.options, candidate.workers
        if key not in self._classes:
            self._classes[key] = Lockstep.of(candidate.strategy, candidate.workers)
        return self._classes[key]

    def of(self, candidate: Candidate) -> SampleCell:
        """The cell of a candidate."""
        found = self.lockstep(candidate)
        if found is not None:
            return SampleCell(found, candidate.workers, candidate.settings)
        return SampleCell(None, candidate.workers, candidate.settings, candidate.system, candidate.options, candidate.machines)

    def terms(self, candidate: Candidate, space: Space) -> dict[str, float]:
        """The terms of the law of samples for a candidate: see `samples_law`."""
        found, factors = self.lockstep(candidate), space.factors(candidate)
        together = found is not None and found.every_step and found.merge is None
        name = LOCKSTEP if together else candidate.system
        workers, rate = math.log(candidate.workers), math.log(factors.get("rate", 1.0))
        terms = {"one": 1.0, "batch": workers + math.log(factors.get("batch", 1.0)), f"{name}:": 1.0}
        if workers:
            terms[f"{name}:workers"] = workers
        if rate:
            terms |= {"rate": rate, "rate squared": rate**2, f"{name}:rate": rate}
        if length := math.log(factors.get("length", 1.0)):
            terms["length"] = length
        if not together:
            terms |= {"apart": 1.0, **{f"{name}:option={key}={value}": 1.0 for key, value in candidate.options}}
        return terms
