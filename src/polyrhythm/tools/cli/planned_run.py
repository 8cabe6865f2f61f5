"""Planned runs, each with all that decides its result: of training functions here, of scripts in `scripts`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.kernel.job import Runtime
from polyrhythm.core.protocols.metrics_logger import MetricsLogger
from polyrhythm.core.protocols.partition import WHOLE, ModelPartition
from polyrhythm.core.records.outcome import Outcome, Summary
from polyrhythm.core.records.progress import Watch
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.core.training.run import Attempt, attempt, recorded_settings
from polyrhythm.core.training.work import Train
from polyrhythm.errors import PolyrhythmError, RecordError
from polyrhythm.tools.pools.side_by_side import or_one_by_one

COMMAND = "command"
"""The note with the command of a run; it does not affect the run."""


class Planned(Protocol):
    """A run of a comparison, as the pools and the records know it."""

    @property
    def name(self) -> str:
        """Its name in progress and errors."""

    @property
    def place(self) -> str:
        """Its directory below --out."""

    def attempt(self, directory: Path | None, watch: Watch, checkpoints: Checkpoints | None = None) -> Attempt:
        """Make the run, with its record in `directory` if one can be started there."""

    def failed(self, error: PolyrhythmError) -> Attempt:
        """The attempt of a run of which only `error` is known."""

    def decisive(self) -> dict[str, Any]:
        """What decides the outcome, as the record of the run has it."""

    def is_whole(self, outcome: Outcome) -> bool:
        """True if the record has all that a run leaves."""


def recorded_or_not(make: Callable[[Path | None], Attempt], directory: Path | None) -> Attempt:
    """Make a run with its record in `directory`; if no record can be started there, without one, which is noted as a trouble."""
    try:
        return make(directory)
    except RecordError as problem:  # the runs before and after it must not be lost with it
        tried = make(None)
        tried.troubles.append(str(problem))
        tried.outcome.remarks.append(str(problem))
        return tried


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
    partition: ModelPartition = WHOLE

    def attempt(self, directory: Path | None, watch: Watch, checkpoints: Checkpoints | None = None) -> Attempt:
        """Make the run, with its record in `directory`; if no record can be started there, without one, which is noted as a trouble."""
        return recorded_or_not(lambda where: self._attempt(where, watch, checkpoints), directory)

    def failed(self, error: PolyrhythmError) -> Attempt:
        """The attempt of a run of which only `error` is known."""
        workers = self.strategy.workers(self.crew.most)
        summary = Summary(self.strategy.name, workers, self.on.kind, self.on.network_name, self.seed, error=str(error))
        return Attempt(Outcome(summary, state="failed"), error)

    def decisive(self) -> dict[str, Any]:
        """What decides the outcome, as the record of the run has it."""
        notes = {name: text for name, text in self.notes.items() if name != COMMAND}
        settings = recorded_settings(self.train, self.strategy, self.on, notes)
        return {**settings, "seed": self.seed, "workers": self.strategy.workers(self.crew.most)}

    def is_whole(self, outcome: Outcome) -> bool:
        """True if the record has all that a run leaves: its weights, too."""
        return outcome.summary.weights_sha256 is not None

    def _attempt(self, directory: Path | None, watch: Watch, checkpoints: Checkpoints | None) -> Attempt:
        return or_one_by_one(self.on, lambda on: self._attempt_on(on, directory, watch, checkpoints))

    def _attempt_on(self, on: Runtime, directory: Path | None, watch: Watch, checkpoints: Checkpoints | None) -> Attempt:
        return attempt(
            self.train,
            workers=self.crew,
            strategy=self.strategy,
            on=on,
            seed=self.seed,
            directory=directory,
            watch=watch,
            notes=self.notes,
            checkpoints=checkpoints,
            loggers=self.loggers,
            timeline=self.timeline,
            partition=self.partition,
        )
