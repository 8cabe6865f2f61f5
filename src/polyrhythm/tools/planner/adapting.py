"""A run that adapts: it is diagnosed at a cut, and where a worker or a line is at fault it goes on in the way that suits what was measured.

The cut is a checkpoint that all workers write after the same step. Without a fault the run goes on from it as if nothing had been.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.kernel.job import Runtime
from polyrhythm.core.records.outcome import OPTIONS
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
from polyrhythm.tools.planner.looks import Looks, untold
from polyrhythm.tools.planner.planner import Planner
from polyrhythm.tools.planner.recorded import RecordedRun
from polyrhythm.tools.report.diagnosis import FAULTS, Cause, diagnose

LOOK = 20
"""Steps before the first look."""
_LOOKS = 3
"""It is looked at so often, after four times as many steps each time: what becomes slow later shows too."""


@dataclass(frozen=True, slots=True)
class RunPart:
    """A part of a run, from one checkpoint to the next or to the end; `number` counts the parts from 0, `notes` are for its record."""

    train: Any
    strategy: Strategy
    workers: int
    on: Runtime
    checkpoints: Checkpoints = Checkpoints()  # noqa: RUF009 (a frozen value)
    number: int = 0
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AdaptedRun:
    """The parts of the run, the last of which came to its end or failed; what each look has seen, in sentences; what was found at fault,
    and what was advised.
    """

    parts: list[Attempt]
    looks: list[str]
    causes: list[Cause] = field(default_factory=list)
    advice: str = ""
    changed: Candidate | None = None


@dataclass(frozen=True, slots=True)
class Adapting:
    """Trains as `asked`: `make` makes each part of the run, and `planner` searches from the record of one.

    Checkpoints at cuts are below `directory`. Lines that no record shows, as those within one host, are the `lines`. What is seen and
    decided at a look is given to `tell` at once, a sentence at a time.
    """

    asked: RunPart
    make: Callable[[RunPart], Attempt]
    directory: Path
    planner: Callable[[RecordedRun], Planner]
    look: int = LOOK
    lines: Network | None = None
    tell: Callable[[str], None] = untold

    def run(self) -> AdaptedRun:
        """Train to the end, and change once where it pays."""
        asked, parts, looks = self.asked, list[Attempt](), Looks(self.tell)
        before: Path | None = None
        for number in range(_LOOKS):
            steps, here = self.look * 4**number, self.directory / f"cut-{number}"
            limited = Limited(asked.train, steps + 1, asked.strategy.chooses)  # the checkpoint is written before the last of them
            cuts = Checkpoints(here, every=self.look, resume=False if before is None else before)
            part = self.make(replace(asked, train=limited, checkpoints=cuts, number=number, notes={**asked.notes, **looks.noted(steps)}))
            parts.append(part)
            if part.error is not None:
                return AdaptedRun(parts, looks.told)
            if part.outcome.summary.steps <= steps:
                looks.too_late(part.outcome.summary.steps, steps)
                return AdaptedRun(parts, looks.told)
            before = here
            faults = [cause for cause in diagnose(part.outcome).causes if cause.kind in FAULTS]
            if causes := looks.saw(steps, faults, 4 * steps if number < _LOOKS - 1 else None):
                return self._changed(parts, causes, here, looks)
        parts.append(self._last(replace(asked, notes={**asked.notes, **looks.noted()}), self.directory / f"cut-{_LOOKS - 1}", len(parts)))
        return AdaptedRun(parts, looks.told)

    def _changed(self, parts: list[Attempt], causes: list[Cause], cut: Path, looks: Looks) -> AdaptedRun:
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
            best, said = None, f"No other way was looked for, and the run goes on as it was. {problem}"
        looks.decided(said, best is not None)
        if best is None:
            parts.append(self._last(replace(self.asked, notes={**self.asked.notes, **looks.noted()}), cut, len(parts)))
        else:
            train = planner.found.scenario.set(dict(best.settings))
            rates = ["lr"] if planner.found.space.rate is not None and best.settings else []
            notes = {**self.asked.notes, **looks.noted(), OPTIONS: msgspec.json.encode(dict(best.options)).decode()}
            way = replace(self.asked, train=train, strategy=best.strategy, workers=best.workers, on=self._among(best), notes=notes)
            parts.append(self._last(way, cut, len(parts), [STRATEGY, *rates]))
        return AdaptedRun(parts, looks.told, causes, said, best)

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
