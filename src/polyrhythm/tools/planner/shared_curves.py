"""Curves that several candidates share: those that are equal in lockstep need the same samples, and each is timed for a few steps only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import harmonic_mean

from polyrhythm.tools.planner.candidate import ALONE, Candidate
from polyrhythm.tools.planner.cells import Cells
from polyrhythm.tools.planner.chosen_machines import ChosenMachines
from polyrhythm.tools.planner.findings import Findings
from polyrhythm.tools.planner.measured import TrainedRun
from polyrhythm.tools.planner.pace import OWN_PACE, Paces, carried_over

WARM_UP = 24
"""Codecs and consistencies that warm up have done so after as many steps."""
_WARMING = 0.5
"""The deviation of the logarithm of a pace before that."""


@dataclass(slots=True)
class SharedCurves:
    """Shares the curves of the runs in `found`; `timed` are the short runs of candidates that have another's curve."""

    found: Findings
    cells: Cells = field(default_factory=Cells)
    timed: dict[Candidate, TrainedRun] = field(default_factory=dict)
    _computing: dict[tuple[int, ChosenMachines, int, bool], float] = field(default_factory=dict)

    def share(self, candidate: Candidate) -> None:
        """Let all that are equal to the candidate in lockstep have the curve of one that came to the target, at their own pace."""
        found, cells = self.found, self.cells
        if cells.lockstep(candidate) is None or candidate.is_alone:
            return
        cell = cells.of(candidate)
        equal = [each for each in found.trainings if found.trainings[each] and not each.is_alone and cells.of(each) == cell]
        donors = {
            seed: (each, run) for each in equal for seed, run in found.trainings[each].items() if run.end is not None and not run.like
        }
        paces = self.paces() if donors else None
        for each in equal:
            own = self.timed.get(each, found.training(each))
            if paces is None or own is None or own.error or own.end is not None or not own.samples:
                continue
            self.timed[each] = own
            missing = {seed: donor for seed, donor in donors.items() if found.trainings[each].get(seed, own).end is None}
            for seed, (donor, run) in missing.items():
                made = carried_over(own, run, paces.of(each), found.per_step(each), donor.name)
                found.trainings[each][seed] = made
            found.judge(each)

    def paces(self) -> Paces:
        """What samples cost each candidate, from all runs under the first seed."""
        return Paces(self._own_runs(), self.found.per_step, self.computing, self._error, self.found.foretold)

    def _error(self, candidate: Candidate, training: TrainedRun) -> float:
        """The deviation of the pace that a run has shown: large where few steps may be those of a warm-up."""
        return OWN_PACE if training.limit >= WARM_UP or self.cells.lockstep(candidate) is not None else _WARMING

    def computing(self, candidate: Candidate) -> float:
        """The seconds of computing for a step of all workers: the slowest machine's where the others wait for it, else as many samples'."""
        key = candidate.workers, candidate.machines, self.found.batch(candidate), self.cells.lockstep(candidate) is not None
        if key not in self._computing:
            flops = self.found.shape().flops * key[2] / max(1, self.found.batch(ALONE))
            devices = self.found.scenario.among(candidate).devices
            seconds = [devices.machine(place).step_seconds(flops, 0) for place in range(candidate.workers)]
            self._computing[key] = max(seconds) if key[3] else harmonic_mean(seconds)
        return self._computing[key]

    def _own_runs(self) -> Iterator[tuple[Candidate, TrainedRun]]:
        yield from self.timed.items()
        for each in self.found.trainings:
            training = self.found.training(each)
            if training is not None and not training.like:
                yield each, training
