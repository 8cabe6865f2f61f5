"""The search for the way in which a script of torch.distributed reaches a target: systems on the axis where it joins, and numbers of ranks.

`polyrhythm plan` makes it. A script is run whole, and broken off where it costs more than the best.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import time

from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.kernel.events import AnyEvent, Stepped
from polyrhythm.core.records.metrics import Target
from polyrhythm.core.records.outcome import Outcome, Summary
from polyrhythm.core.records.progress import Watch
from polyrhythm.core.training.run import Attempt
from polyrhythm.errors import BrokenOff, PolyrhythmError
from polyrhythm.tools.planner.budget import Budget
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.measured import TrainedRun
from polyrhythm.tools.planner.objective import Objective, Spent
from polyrhythm.tools.planner.space import options_of
from polyrhythm.tools.planner.tasks import TIME_IS_UP, kept
from polyrhythm.tools.pools.pools import Done, Followed, Pool, work
from polyrhythm.torch_programs.program_run import ProgramRun

LEEWAY = 1.5
"""A run continues until it has cost so many times what the best did."""
_LEADERS = 3
"""So many systems are tried with the other numbers of ranks, and with other options."""
_DEAR = "it costs more than the best"


@dataclass(frozen=True, slots=True)
class ScriptTask:
    """A run of a candidate, until it has cost over `most`, or `deadline` has come by the clock of the day."""

    candidate: Candidate
    run: ProgramRun
    objective: Objective
    most: float
    deadline: float

    @property
    def name(self) -> str:
        """The candidate's name in progress lines."""
        return self.candidate.name

    def attempt(self, directory: Path | None, watch: Watch, checkpoints: Checkpoints | None = None) -> Attempt:
        """Make the run; some of its steps, and its metrics, are kept."""

        def follow(event: AnyEvent) -> None:
            watch(event)
            if time() > self.deadline:
                raise BrokenOff(TIME_IS_UP)
            if isinstance(event, Stepped) and self._cost(event) > self.most:
                raise BrokenOff(_DEAR)

        try:
            tried = self.run.attempt(directory, follow)
        except PolyrhythmError as problem:
            return self.failed(problem)
        tried.outcome.events[:] = kept(tried.outcome.events)
        return tried

    def failed(self, error: PolyrhythmError) -> Attempt:
        """The attempt of a run of which only `error` is known."""
        on = self.run.on
        summary = Summary(self.candidate.system, self.candidate.workers, on.kind, on.network_name, on.seed, error=str(error))
        return Attempt(Outcome(summary, state="failed"), error)

    def _cost(self, event: Stepped) -> float:
        return self.objective.cost(Spent(event.time, event.bytes_sent, self.candidate.workers))


@dataclass(slots=True)
class ScriptSearch:
    """Runs candidates, which `made` makes into runs, by the `pool`; `systems` on the middle one of `workers` first."""

    made: Callable[[Candidate], ProgramRun]
    target: Target
    objective: Objective
    systems: tuple[str, ...]
    workers: tuple[int, ...]
    pool: Callable[[Done], Pool]
    budget: Budget
    found: dict[Candidate, TrainedRun] = field(default_factory=dict)

    def run(self) -> None:
        """Search; what is known by then stays in `found` if this is interrupted."""
        middle = self.workers[(len(self.workers) - 1) // 2]
        self._make(Candidate(system, middle) for system in self.systems)
        leaders = self.ranked()[:_LEADERS]
        self._make(replace(each, workers=count) for each in leaders for count in self.workers)
        self._make(changed for each in self.ranked()[:_LEADERS] for changed in _with_options(each))

    def cost(self, candidate: Candidate) -> float:
        """The cost of its run to the target; infinite where that was not reached."""
        return self.found[candidate].cost(self.objective, candidate.workers)

    def ranked(self) -> list[Candidate]:
        """Those that came to the target, the best first."""
        return sorted((each for each in self.found if self.cost(each) < math.inf), key=self.cost)

    def why(self, candidate: Candidate) -> str:
        """Why it did not come to the target."""
        run = self.found[candidate]
        best = run.best(self.target)
        nearest = "it gave no value" if best is None else f"the best was {best:.4g}"
        return run.error or run.cut or f"it ended before, {nearest}"

    def _make(self, candidates: Iterable[Candidate]) -> None:
        work(self.pool, self._tasks(candidates))

    def _tasks(self, candidates: Iterable[Candidate]) -> Iterator[Followed]:
        for each in dict.fromkeys(candidates):
            if each not in self.found and self.budget.left() > 0:
                most = LEEWAY * min((self.cost(other) for other in self.found), default=math.inf)
                task = ScriptTask(each, self.made(each), self.objective, most, self.budget.deadline())
                yield task, partial(self._keep, each)

    def _keep(self, candidate: Candidate, attempt: Attempt) -> None:
        self.found[candidate] = TrainedRun.of(attempt, self.target, 0, 1)


def _with_options(candidate: Candidate) -> Iterator[Candidate]:
    """The candidate with one option of its system changed."""
    for key, values in options_of(candidate.system).items():
        for value in values[1:]:
            yield replace(candidate, options=((key, value),))
