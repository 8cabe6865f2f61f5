"""`polyrhythm run --adapt`: a run that is diagnosed while it goes on, and changes to what suits its machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.records.metrics import parse_target
from polyrhythm.core.records.progress import Watch, board
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.network import Network
from polyrhythm.hardware.placement import Local
from polyrhythm.tools.cli.failures import notice
from polyrhythm.tools.cli.planned_run import PlannedRun
from polyrhythm.tools.planner.adapting import Adapting, RunPart
from polyrhythm.tools.planner.plan import PlanRequest
from polyrhythm.tools.planner.recorded import RecordedRun

if TYPE_CHECKING:
    from polyrhythm.core.training.run import Attempt
    from polyrhythm.tools.planner.planner import Planner

_BUDGET = 60.0
_HOST = Network.uniform("one host", f"{8 * Local().bandwidth:g} bit/s", Local().latency)
"""Between processes of one host, whose lines no record shows."""


@dataclass(frozen=True, slots=True)
class AdaptOptions:
    """The `target` of a run that adapts, its JOB as it was typed, its checkpoints, and the metrics that it logs.

    Raises CompositionErrors for what cannot adapt.
    """

    target: str
    job: str
    checkpoints: Checkpoints
    logged: Sequence[Any] = ()

    def __post_init__(self) -> None:
        parse_target(self.target)
        if self.checkpoints.resume is not False:
            raise CompositionError("--adapt looks at a run from its beginning: leave out --resume and --override.")
        if self.logged:
            raise CompositionError(
                "A run with --adapt is made in parts, and a log would have the last of them alone: leave out --log, and keep the records "
                "of all parts by --out."
            )

    def attempt(self, plan: PlannedRun, kept: Path | None, watch: Watch) -> tuple[Attempt, Path | None]:
        """Make the run, say what each look has seen and decided, and return its last part with the place of its record;
        those of all are below `kept`."""
        self._refuse(plan)

        def place(number: int) -> Path | None:
            return None if kept is None else kept / f"part-{number}"

        def make(part: RunPart) -> Attempt:
            notes = {**plan.notes, **part.notes}
            own = replace(plan, train=part.train, strategy=part.strategy, on=part.on, crew=Crew.of(part.workers), notes=notes)
            return own.attempt(place(part.number), watch, part.checkpoints)

        asked = RunPart(plan.train, plan.strategy, plan.crew.most, plan.on, self.checkpoints)
        lines = _HOST if plan.on.kind == "processes" else None
        with TemporaryDirectory() as made:
            below = self.checkpoints.directory or made
            run = Adapting(asked, make, Path(below), self._planner(plan), lines=lines, tell=notice).run()
        return run.parts[-1], place(len(run.parts) - 1)

    def _refuse(self, plan: PlannedRun) -> None:
        if not plan.crew.fixed or not plan.partition.shape.flat:
            raise CompositionError(
                "--adapt is for a fixed number of workers with the whole model each: leave out --mesh and a range of --workers."
            )
        if plan.crew.most < 2:
            raise CompositionError("--adapt compares ways of training together, and there is one worker: give --workers 2 or more.")
        if plan.on.kind not in ("simulator", "processes") and self.checkpoints.directory is None:
            raise CompositionError(
                f"On {plan.on.kind} the workers are on several hosts, which continue from checkpoints that all of them see: give --adapt a "
                "shared --checkpoint DIR."
            )

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
