"""One planned run, with all that decides its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.kernel.job import Runtime
from polyrhythm.core.protocols.metrics_logger import MetricsLogger
from polyrhythm.core.records.outcome import Outcome, Summary
from polyrhythm.core.records.progress import Watch
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.core.training.run import Attempt, attempt
from polyrhythm.core.training.work import Train
from polyrhythm.errors import PolyrhythmError, RecordError

COMMAND = "command"
"""The note with the command of a run; it does not affect the run."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run: `name` is its name in progress and errors, `place` its directory below --out, `notes` further entries of its record."""

    name: str
    place: str
    strategy: Strategy
    train: Train
    on: Runtime
    crew: Crew
    seed: int
    notes: Mapping[str, str] = field(default_factory=dict)
    loggers: Sequence[MetricsLogger] = ()
    timeline: bool = False

    def attempt(self, directory: Path | None, watch: Watch, checkpoints: Checkpoints | None = None) -> Attempt:
        """Make the run, with its record in `directory`; if no record can be started there, without one, which is noted as a trouble."""
        try:
            return self._attempt(directory, watch, checkpoints)
        except RecordError as problem:  # the runs before and after it must not be lost with it
            tried = self._attempt(None, watch, checkpoints)
            tried.troubles.append(str(problem))
            tried.outcome.remarks.append(str(problem))
            return tried

    def failed(self, error: PolyrhythmError) -> Attempt:
        """The attempt of a run of which only `error` is known."""
        workers = self.strategy.workers(self.crew.most)
        summary = Summary(self.strategy.name, workers, self.on.kind, self.on.network_name, self.seed, error=str(error))
        return Attempt(Outcome(summary, state="failed"), error)

    def _attempt(self, directory: Path | None, watch: Watch, checkpoints: Checkpoints | None) -> Attempt:
        return attempt(
            self.train,
            workers=self.crew,
            strategy=self.strategy,
            on=self.on,
            seed=self.seed,
            directory=directory,
            watch=watch,
            notes=self.notes,
            checkpoints=checkpoints,
            loggers=self.loggers,
            timeline=self.timeline,
        )
