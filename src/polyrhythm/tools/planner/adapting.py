"""A run that adapts: it is diagnosed at a cut, and where a worker or a line is at fault it goes on in the way that suits what was measured.

The cut is a checkpoint that all workers write after the same step. Without a fault the run goes on from it as if nothing had been.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.kernel.job import Runtime
from polyrhythm.core.records.progress import Watch, ignore
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.training.checkpoint_plan import STRATEGY
from polyrhythm.core.training.run import Attempt, attempt
from polyrhythm.hardware.chosen import some_machines
from polyrhythm.systems import find
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.change_now import advice, best_change, run_own
from polyrhythm.tools.planner.limited import Limited
from polyrhythm.tools.planner.planner import Planner
from polyrhythm.tools.planner.recorded import RecordedRun
from polyrhythm.tools.report.diagnosis import FAULTS, Cause, diagnose

LOOK = 20
"""Steps before the first look."""
_LOOKS = 3
"""It is looked at so often, after four times as many steps each time: what becomes slow later shows too."""
_NOTABLE = 0.1
"""A fault is followed that should gain this part of the time."""

PlannerOf = Callable[[RecordedRun], Planner]


@dataclass(frozen=True, slots=True)
class AdaptedRun:
    """The parts of the run, the last of which came to its end or failed; what was found at fault, and what was advised."""

    parts: list[Attempt]
    causes: list[Cause]
    advice: str = ""
    changed: Candidate | None = None


@dataclass(frozen=True, slots=True)
class Adapting:
    """Trains `train` with `system` on `workers` workers; checkpoints are below `directory`, and `planner` searches from a record."""

    train: Any
    system: str
    workers: int
    on: Runtime
    seed: int
    directory: Path
    planner: PlannerOf
    look: int = LOOK
    watch: Watch = ignore

    def run(self) -> AdaptedRun:
        """Train to the end, and change once where it pays."""
        parts: list[Attempt] = []
        before: Path | None = None
        own = Candidate(self.system, self.workers)
        for place in range(_LOOKS):
            steps, here = self.look * 4**place, self.directory / f"cut-{place}"
            limited = Limited(self.train, steps + 1, own.strategy.chooses)  # the checkpoint is written before the last of them
            part = self._part(own, limited, Checkpoints(here, every=self.look, resume=False if before is None else before))
            parts.append(part)
            if part.error is not None or part.outcome.summary.steps < steps:
                return AdaptedRun(parts, [])
            before = here
            causes = [cause for cause in diagnose(part.outcome).causes if cause.kind in FAULTS and cause.gain >= _NOTABLE]
            if causes:
                return self._changed(parts, causes, here)
        parts.append(self._part(own, self.train, Checkpoints(resume=self.directory / f"cut-{_LOOKS - 1}")))
        return AdaptedRun(parts, [])

    def _changed(self, parts: list[Attempt], causes: list[Cause], cut: Path) -> AdaptedRun:
        """Search on the machines as they were measured, and go on in the way that is fastest from here."""
        recorded = RecordedRun(parts[-1].outcome)
        planner = self.planner(recorded)
        planner.plan()
        run_own(recorded, planner)
        best = best_change(recorded, planner)
        chosen = Candidate(self.system, self.workers) if best is None else best
        train = planner.found.scenario.set(dict(chosen.settings))
        rates = [planner.found.space.rate[0]] if planner.found.space.rate is not None and chosen.settings else []
        override = [STRATEGY, *(["lr"] if rates else [])]
        parts.append(self._part(chosen, train, Checkpoints(resume=cut, override=override)))
        return AdaptedRun(parts, causes, advice(recorded, planner), best)

    def _part(self, candidate: Candidate, train: Any, checkpoints: Checkpoints) -> Attempt:
        return attempt(
            train,
            workers=candidate.workers,
            strategy=find(candidate.system, **dict(candidate.options)),
            on=self._among(candidate),
            seed=self.seed,
            checkpoints=checkpoints,
            watch=self.watch,
        )

    def _among(self, candidate: Candidate) -> Runtime:
        """The runtime with the candidate's machines alone: in virtual time these can be chosen."""
        some, on = candidate.machines, self.on
        match on:
            case Simulator(network, devices) if some and not isinstance(network, Instant):
                chosen, machines = some_machines(network, devices, some.places, some.of)
                return replace(on, network=chosen, devices=machines)
        return on
