"""A run of one method at one size with real gradients, as far as the target: a task for a pool of processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import monotonic, time

from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.kernel.events import AnyEvent, Stepped
from polyrhythm.core.kernel.job import Runtime
from polyrhythm.core.records.progress import Watch, ignore
from polyrhythm.core.training.run import Attempt, attempt
from polyrhythm.errors import BrokenOff, PolyrhythmError
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.limited import Limited
from polyrhythm.tools.planner.proxy.crossing import AroundTarget
from polyrhythm.tools.planner.run_notes import REAL
from polyrhythm.tools.planner.scenario import Scenario
from polyrhythm.tools.planner.tasks import TIME_IS_UP, failed, kept
from polyrhythm.tools.pools.side_by_side import or_one_by_one


@dataclass(frozen=True, slots=True)
class Trial:
    """A run of `candidate`, which has a size and a rate among its settings, on the machines of `scenario` under `seed`.

    It takes so many `steps` of each worker, and is broken off, with nothing evaluated, when `deadline` has come, in seconds of the clock of
    the day.
    """

    scenario: Scenario
    candidate: Candidate
    seed: int
    steps: int
    deadline: float

    @property
    def name(self) -> str:
        """The candidate's name in progress lines."""
        return self.candidate.name

    def attempt(self, directory: Path | None, watch: Watch = ignore, checkpoints: Checkpoints | None = None) -> Attempt:
        """Make the run. What is kept of its events are evaluations, and some of each worker's steps."""
        return or_one_by_one(self.scenario.on(self.seed), lambda on: self._attempt(on, watch))

    def _attempt(self, on: Runtime, watch: Watch) -> Attempt:
        began, strategy = monotonic(), self.candidate.strategy
        limited = Limited(self.scenario.trained(self.candidate), self.steps, strategy.chooses, AroundTarget(self.scenario.target))

        def follow(event: AnyEvent) -> None:
            watch(event)
            if isinstance(event, Stepped) and time() > self.deadline:
                raise BrokenOff(TIME_IS_UP)

        try:
            tried = attempt(limited, workers=self.candidate.workers, strategy=strategy, on=on, seed=self.seed, watch=follow)
        except PolyrhythmError as problem:
            return self.failed(problem)
        tried.outcome.events[:] = kept(tried.outcome.events)
        tried.outcome.weights.clear()
        tried.outcome.settings[REAL] = str(monotonic() - began)
        return tried

    def failed(self, error: PolyrhythmError) -> Attempt:
        """The attempt of a run of which only `error` is known."""
        return failed(self.scenario, self.candidate, self.seed, error)
