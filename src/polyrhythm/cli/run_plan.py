"""One run that is to be made, with all that decides what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from polyrhythm.errors import PolyrhythmError, RecordError
from polyrhythm.kernel.job import Runtime
from polyrhythm.report.outcome import Outcome, Summary
from polyrhythm.report.progress import Watch
from polyrhythm.strategy.strategy import Strategy
from polyrhythm.training.run import Attempt, Train, attempt

COMMAND = "command"
"""The note that says how a run came about; it decides nothing about it."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """One run: `name` is what progress and errors call it, `place` its directory below --out, `notes` what its record tells besides."""

    name: str
    place: str
    strategy: Strategy
    train: Train
    on: Runtime
    workers: int
    seed: int
    notes: Mapping[str, str] = field(default_factory=dict)

    def attempt(self, directory: Path | None, watch: Watch) -> Attempt:
        """Make the run, keeping its record in `directory`; without, and with a trouble, if none can be begun there."""
        try:
            return self._attempt(directory, watch)
        except RecordError as problem:  # the runs before it, and after, are not to be lost with it
            tried = self._attempt(None, watch)
            tried.troubles.append(str(problem))
            tried.outcome.remarks.append(str(problem))
            return tried

    def failed(self, error: PolyrhythmError) -> Attempt:
        """What there is to tell of the run where `error` left nothing else of it."""
        workers = self.strategy.workers(self.workers)
        summary = Summary(self.strategy.name, workers, self.on.kind, self.on.network_name, self.seed, error=str(error))
        return Attempt(Outcome(summary, state="failed"), error)

    def _attempt(self, directory: Path | None, watch: Watch) -> Attempt:
        return attempt(
            self.train,
            workers=self.workers,
            strategy=self.strategy,
            on=self.on,
            seed=self.seed,
            directory=directory,
            watch=watch,
            notes=self.notes,
        )
