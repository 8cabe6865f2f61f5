"""What the runs of one command have in common, and one try of one system at it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from polyrhythm.errors import RecordError
from polyrhythm.kernel.job import Runtime
from polyrhythm.report.progress import Watch
from polyrhythm.strategy.strategy import Strategy
from polyrhythm.training.run import Attempt, Train, attempt


@dataclass(frozen=True, slots=True)
class Experiment:
    """The same training function, runtime, number of workers and seed for every system."""

    train: Train
    on: Runtime
    workers: int
    seed: int

    def attempt(self, strategy: Strategy, directory: Path | None, watch: Watch) -> Attempt:
        """Run `strategy`, keeping its record in `directory`; without, and with a trouble, if none can be begun there."""
        try:
            return self._attempt(strategy, directory, watch)
        except RecordError as problem:  # the runs before it, and after, are not to be lost with it
            tried = self._attempt(strategy, None, watch)
            tried.troubles.append(str(problem))
            tried.outcome.remarks.append(str(problem))
            return tried

    def _attempt(self, strategy: Strategy, directory: Path | None, watch: Watch) -> Attempt:
        return attempt(self.train, workers=self.workers, strategy=strategy, on=self.on, seed=self.seed, directory=directory, watch=watch)
