"""`polyrhythm run --adapt`: a run that is diagnosed while it goes on, and changes to what suits its machines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from polyrhythm.core.records.progress import board
from polyrhythm.errors import CompositionError
from polyrhythm.tools.cli.failures import notice
from polyrhythm.tools.cli.planned_run import PlannedRun
from polyrhythm.tools.planner.adapting import Adapting
from polyrhythm.tools.planner.plan import PlanRequest
from polyrhythm.tools.planner.recorded import RecordedRun

if TYPE_CHECKING:
    from polyrhythm.core.training.run import Attempt
    from polyrhythm.tools.planner.planner import Planner

_BUDGET = 60.0


@dataclass(frozen=True, slots=True)
class AdaptOptions:
    """The `target` of a run that adapts, and its JOB and system as they were typed."""

    target: str
    job: str
    system: str

    def attempt(self, plan: PlannedRun, checkpoints: Path | None) -> Attempt:
        """Make the run, say what was changed, and return its last part. Raises CompositionError for what cannot adapt."""
        if not plan.crew.fixed or plan.partition.shape.flat is False:
            raise CompositionError(
                "--adapt is for a fixed number of workers with the whole model each: leave out --mesh and a range of --workers."
            )
        with TemporaryDirectory() as made:
            run = Adapting(
                plan.train, self.system, plan.crew.most, plan.on, plan.seed, checkpoints or Path(made), self._planner(plan)
            ).run()
        for cause in run.causes:
            notice(f"{cause.kind}: {cause.finding}")
        if run.advice:
            notice(run.advice)
        return run.parts[-1]

    def _planner(self, plan: PlannedRun) -> Callable[[RecordedRun], Planner]:
        train: Any = plan.train

        def planner(recorded: RecordedRun) -> Planner:
            request = PlanRequest(
                self.target, network=recorded.network, devices=recorded.fleet, workers=(recorded.workers,), budget=_BUDGET, seed=plan.seed
            )
            with board(1, wanted=False) as line:
                made = request.planner(train, self.job, request.pool_with(line))
            if plan.on.kind != "simulator":  # real workers stay where they are
                made.found.space = replace(made.found.space, machines=())
            return made

        return planner
