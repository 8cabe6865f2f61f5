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
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.core.training.checkpoint_plan import STRATEGY
from polyrhythm.core.training.run import Attempt
from polyrhythm.errors import PolyrhythmError
from polyrhythm.hardware.chosen import some_machines
from polyrhythm.hardware.network import Network
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


@dataclass(frozen=True, slots=True)
class RunPart:
    """A part of a run, from one checkpoint to the next or to the end; `number` counts the parts from 0."""

    train: Any
    strategy: Strategy
    workers: int
    on: Runtime
    checkpoints: Checkpoints = Checkpoints()  # noqa: RUF009 (a frozen value)
    number: int = 0


@dataclass(frozen=True, slots=True)
class AdaptedRun:
    """The parts of the run, the last of which came to its end or failed; what was found at fault, and what was advised."""

    parts: list[Attempt]
    causes: list[Cause]
    advice: str = ""
    changed: Candidate | None = None


@dataclass(frozen=True, slots=True)
class Adapting:
    """Trains as `asked`: `make` makes each part of the run, and `planner` searches from the record of one.

    Checkpoints at cuts are below `directory`. Lines that no record shows, as those within one host, are the `lines`.
    """

    asked: RunPart
    make: Callable[[RunPart], Attempt]
    directory: Path
    planner: Callable[[RecordedRun], Planner]
    look: int = LOOK
    lines: Network | None = None

    def run(self) -> AdaptedRun:
        """Train to the end, and change once where it pays."""
        asked, parts = self.asked, list[Attempt]()
        before: Path | None = None
        for number in range(_LOOKS):
            steps, here = self.look * 4**number, self.directory / f"cut-{number}"
            limited = Limited(asked.train, steps + 1, asked.strategy.chooses)  # the checkpoint is written before the last of them
            cuts = Checkpoints(here, every=self.look, resume=False if before is None else before)
            part = self.make(replace(asked, train=limited, checkpoints=cuts, number=number))
            parts.append(part)
            if part.error is not None or part.outcome.summary.steps <= steps:
                return AdaptedRun(parts, [])
            before = here
            causes = [cause for cause in diagnose(part.outcome).causes if cause.kind in FAULTS and cause.gain >= _NOTABLE]
            if causes:
                return self._changed(parts, causes, here)
        parts.append(self._last(asked, self.directory / f"cut-{_LOOKS - 1}", len(parts)))
        return AdaptedRun(parts, [])

    def _changed(self, parts: list[Attempt], causes: list[Cause], cut: Path) -> AdaptedRun:
        """Search on the machines as they were measured, and go on in the way that is fastest from here.

        Where nothing can be searched for, such as a metric that the job does not evaluate, the run goes on as it is: that is said.
        """
        recorded = RecordedRun(parts[-1].outcome, self.lines)
        try:
            planner = self.planner(recorded)
            planner.plan()
            run_own(recorded, planner)
            best, said = best_change(recorded, planner), advice(recorded, planner)
        except PolyrhythmError as problem:
            parts.append(self._last(self.asked, cut, len(parts)))
            return AdaptedRun(parts, causes, f"No other way was looked for, and the run has gone on as it was. {problem}")
        if best is None:
            parts.append(self._last(self.asked, cut, len(parts)))
        else:
            train = planner.found.scenario.set(dict(best.settings))
            rates = ["lr"] if planner.found.space.rate is not None and best.settings else []
            way = replace(self.asked, train=train, strategy=best.strategy, workers=best.workers, on=self._among(best))
            parts.append(self._last(way, cut, len(parts), [STRATEGY, *rates]))
        return AdaptedRun(parts, causes, said, best)

    def _last(self, way: RunPart, cut: Path, number: int, override: list[str] | None = None) -> Attempt:
        """From the cut to the end, with the checkpoints that were asked for."""
        return self.make(replace(way, checkpoints=replace(self.asked.checkpoints, resume=cut, override=override or []), number=number))

    def _among(self, candidate: Candidate) -> Runtime:
        """The runtime with the candidate's machines alone: in virtual time these can be chosen."""
        some, on = candidate.machines, self.asked.on
        match on:
            case Simulator(network, devices) if some and not isinstance(network, Instant):
                chosen, machines = some_machines(network, devices, some.places, some.of)
                return replace(on, network=chosen, devices=machines)
        return on
