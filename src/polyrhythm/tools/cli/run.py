"""`polyrhythm run`: one system trains one JOB."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyrhythm.core.kernel.crew import Crew
from polyrhythm.errors import CompositionError, WorkerFailed
from polyrhythm.tools.cli.export_options import ExportTo, after_run, before_run
from polyrhythm.tools.cli.failures import guarded, notice
from polyrhythm.tools.cli.groups import CheckpointOptions, JobOptions, PrintOptions, RuntimeOptions, grouped
from polyrhythm.tools.cli.options import Arguments, Job, Out, Seed, System, crew_typed
from polyrhythm.tools.cli.typed_layout import LayoutOptions, systems_typed

if TYPE_CHECKING:
    from polyrhythm.core.checkpoints.request import Checkpoints
    from polyrhythm.core.protocols.metrics_logger import MetricsLogger
    from polyrhythm.core.training.run import Attempt
    from polyrhythm.tools.cli.planned_run import PlannedRun
    from polyrhythm.tools.cli.prepare import Typed

LogTo = Annotated[
    list[str] | None,
    typer.Option(
        "--log",
        metavar="KIND:TARGET",
        help="Write metrics as they come to csv:PATH, tensorboard:DIR, wandb:PROJECT (offline) or mlflow:TRACKING-URI; may be repeated.",
    ),
]
Timeline = Annotated[
    bool, typer.Option("--timeline", help="Record every message and the phases of every tensor's exchange too, for `polyrhythm trace`.")
]

Workers = Annotated[
    Crew | None,
    typer.Option(
        "--workers",
        metavar="N|A..B",
        parser=crew_typed,
        help="How many workers train together, 2 by default or as many as --mesh has; 2..8 may leave and join meanwhile.",
    ),
]


Adapt = Annotated[
    str | None,
    typer.Option(
        "--adapt",
        metavar="METRIC=VALUE",
        help="Look for a slow worker or line after 20, 80 and 320 steps, and go on with what reaches the target soonest on such machines.",
    ),
]


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """What is kept of a run while it goes on, and whether it changes by that."""

    log: LogTo = None
    timeline: Timeline = False
    adapt: Adapt = None

    def loggers(self) -> tuple[MetricsLogger, ...]:
        """Those that --log names."""
        from polyrhythm.tools.cli.loggers import loggers

        return loggers(self.log or ())

    def attempts(self, job: str, wanted: Checkpoints, logged: Any) -> Callable[[PlannedRun, Path | None, Any], tuple[Attempt, Path | None]]:
        """What makes a run whole or in parts, and says where its record is. Raises CompositionError where it cannot be in parts."""
        from polyrhythm.tools.cli.adapt import AdaptOptions

        if self.adapt is not None:
            return AdaptOptions(self.adapt, job, wanted, logged).attempt
        return lambda plan, kept, watch: (plan.attempt(kept, watch, wanted), kept)


@guarded
@grouped
def run(
    job: Job,
    arguments: Arguments = None,
    system: System = "allreduce",
    workers: Workers = None,
    *,
    layout: LayoutOptions,
    where: RuntimeOptions,
    seed: Seed = 0,
    own: JobOptions,
    out: Out = None,
    checkpoints: CheckpointOptions,
    watching: WatchOptions,
    export: ExportTo = None,
    shown: PrintOptions,
) -> None:
    """Train JOB with one system, on real processes or in virtual time."""
    from polyrhythm.core.records.progress import progress
    from polyrhythm.core.training.layouts import given_partition, given_strategy
    from polyrhythm.tools.cli.output import reserved
    from polyrhythm.tools.cli.pairs import pairs
    from polyrhythm.tools.cli.prepare import directory, prepared, typed
    from polyrhythm.tools.cli.record import COMPARISON

    _refuse_script(job)
    target = None if export is None else before_run(export, job, out)
    strategies, logged = systems_typed(system, pairs(own.options or [], "--option")), watching.loggers()
    mesh, crew = layout.on(workers)
    wanted, given = checkpoints.wanted(), typed(job, arguments, crew, where)
    attempts = watching.attempts(job, wanted, logged)
    with reserved(shown.as_json), prepared(given) as loaded:
        partition, _ = given_partition(mesh, layout.divided(job), strategies, crew.most)
        strategy, notes = given_strategy(strategies, partition), _notes(given, system, layout, seed, own)
        plan = loaded.plan(system, "", strategy, pairs(own.settings or [], "--set"), seed, notes)
        plan = replace(plan, partition=partition, loggers=logged, timeline=watching.timeline)
        kept = directory(out, COMPARISON)
        _announce(checkpoints.checkpoint if checkpoints.resume else None)
        with progress(1, shown.watched) as begin:
            attempt, kept = attempts(plan, kept, begin(system))
        exported = after_run(attempt, target, plan.train, kept)
    raise typer.Exit(exported(_ended(attempt, shown.as_json, kept, watching, checkpoints.checkpoint)))


def _notes(given: Typed, system: str, layout: LayoutOptions, seed: int, own: JobOptions) -> dict[str, str]:
    """The command of the run and the options of its system, for its record."""
    from polyrhythm.tools.cli.pairs import pairs
    from polyrhythm.tools.cli.planned_run import COMMAND
    from polyrhythm.tools.cli.presets import options_noted

    again = given.command("run", before=["--system", system, *layout.arguments()], after=["--seed", str(seed), *own.arguments()])
    return {**options_noted(system, pairs(own.options or [], "--option")), COMMAND: again}


def _refuse_script(job: str) -> None:
    """Raise CompositionError where `job` is no training function, but a whole program."""
    from polyrhythm.tools.cli.scripts import is_script

    if is_script(job):
        raise CompositionError(
            f"{job} is a script of torch.distributed: `polyrhythm simulate` runs it in virtual time, and torchrun on real processes; "
            f"{job}:NAME is a training function in it."
        )


def _ended(attempt: Attempt, as_json: bool, kept: Path | None, watching: WatchOptions, checkpoint: Path | None) -> int:
    """Print the result, where metrics and checkpoints are, and how to go on after the loss of a worker; returns the exit code."""
    from polyrhythm.core.checkpoints.store import CheckpointStore
    from polyrhythm.core.training.checkpoint_plan import CHANGED, RESUMES
    from polyrhythm.tools.cli.ending import ended

    status = ended(attempt, as_json, kept, remarks=() if watching.adapt else (CHANGED, RESUMES))
    for each in watching.log or () if status == 0 else ():
        notice(f"the metrics were logged to {each}")
    is_lost = isinstance(attempt.error, WorkerFailed) and not attempt.error.trace  # it has raised nothing
    newest = None if checkpoint is None or not (status == 0 or is_lost) else CheckpointStore(checkpoint).newest()
    if newest is not None:
        notice(f"the newest checkpoint is {newest.path}; --resume continues from there")
    elif is_lost and (workers := attempt.outcome.summary.workers) > 1:
        notice(
            f"with --checkpoint DIR a run goes on after such a loss, by --resume; with --workers 1..{workers} the others go on at "
            "once, under systems without servers"
        )
    return status


def _announce(checkpoint: Path | None) -> None:
    """Print where a run with --resume begins, whose directory for checkpoints this is."""
    from polyrhythm.core.checkpoints.store import CheckpointStore

    if checkpoint is None:
        return
    newest = CheckpointStore(checkpoint).newest()
    if newest is None:
        notice(f"{checkpoint} has no checkpoint yet: the run starts from the beginning")
    else:
        notice(f"the run continues from {newest.path}; bytes and messages are counted from there")
