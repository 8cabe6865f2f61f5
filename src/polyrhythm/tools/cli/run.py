"""`polyrhythm run`: one system trains one JOB."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from polyrhythm.tools.cli.complete import complete_systems
from polyrhythm.tools.cli.failures import exit_code, guarded, notice, show_error
from polyrhythm.tools.cli.options import (
    Arguments,
    DeviceName,
    Engine,
    Job,
    Json,
    NetworkName,
    On,
    Options,
    Out,
    Quiet,
    Seed,
    Settings,
    Timeout,
    Workers,
    path_given,
    repeated,
)

if TYPE_CHECKING:
    from polyrhythm.core.training.run import Attempt

System = Annotated[
    str,
    typer.Option("--system", metavar="NAME", help="A published system; `polyrhythm systems` lists them.", autocompletion=complete_systems),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option("--checkpoint", metavar="DIR", parser=path_given, help="Where to write checkpoints, and from where --resume continues."),
]
Every = Annotated[
    int | None, typer.Option("--every", metavar="STEPS", min=1, help="Write a checkpoint after every STEPS steps of each worker.")
]
Keep = Annotated[int, typer.Option("--keep", metavar="N", min=1, help="How many of the latest checkpoints to keep.")]
Grace = Annotated[
    float,
    typer.Option("--grace", metavar="SECONDS", help="How long SIGTERM and SIGHUP wait for a last checkpoint; 0 writes none."),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Continue from the newest checkpoint in --checkpoint; from the beginning if there is none yet.")
]
Override = Annotated[
    list[str] | None,
    typer.Option(
        "--override", metavar="NAME", help="Resume with this run's own NAME: lr or another option, data, a variable; may be repeated."
    ),
]
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


@guarded
def run(
    job: Job,
    arguments: Arguments = None,
    system: System = "allreduce",
    workers: Workers = 2,
    on: On = None,
    network: NetworkName = None,
    device: DeviceName = None,
    timeout: Timeout = None,
    engine: Engine = None,
    seed: Seed = 0,
    settings: Settings = None,
    options: Options = None,
    out: Out = None,
    checkpoint: Checkpoint = None,
    every: Every = None,
    keep: Keep = 2,
    grace: Grace = 20.0,
    resume: Resume = False,
    override: Override = None,
    log: LogTo = None,
    timeline: Timeline = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train JOB with one system, on real processes or in virtual time."""
    from polyrhythm.core.checkpoints.request import Checkpoints
    from polyrhythm.core.records.progress import progress
    from polyrhythm.tools.cli.loggers import loggers
    from polyrhythm.tools.cli.output import reserved
    from polyrhythm.tools.cli.pairs import pairs
    from polyrhythm.tools.cli.prepare import directory, prepared, typed
    from polyrhythm.tools.cli.presets import compose
    from polyrhythm.tools.cli.record import COMPARISON
    from polyrhythm.tools.cli.runtimes import RuntimeOptions

    strategy, shown = compose(system, pairs(options or [], "--option")), loggers(log or ())
    wanted = Checkpoints(checkpoint, every, keep, resume, grace, override or [])
    given_options = typed(job, arguments, workers, RuntimeOptions(on, network, device, timeout, tuple(engine or ())))
    changes = [*repeated("--set", settings), *repeated("--option", options)]
    again = given_options.command("run", before=["--system", system], after=["--seed", str(seed), *changes])
    with reserved(as_json), prepared(given_options) as loaded:
        plan = replace(loaded.plan(system, "", strategy, pairs(settings or [], "--set"), seed, again), loggers=shown, timeline=timeline)
        kept = directory(out, COMPARISON)
        _announce(checkpoint if resume else None)
        with progress(1, not (as_json or quiet)) as begin:
            attempt = plan.attempt(kept, begin(system), wanted)
    raise typer.Exit(_report(attempt, as_json, kept))


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


def _report(attempt: Attempt, as_json: bool, kept: Path | None) -> int:
    """Print the result of the run; returns the exit code."""
    from polyrhythm.core.training.checkpoint_plan import CHANGED, RESUMES
    from polyrhythm.tools.cli.output import print_json, print_outcomes

    for trouble in attempt.troubles:
        notice(trouble)
    if attempt.error is not None:
        code = exit_code(attempt.error)
        if as_json and code == 1:
            print_json(attempt.outcome.summary)
        show_error(attempt.error)
        return code
    if as_json:
        print_json(attempt.outcome.summary)
    else:
        print_outcomes([attempt.outcome])
    for told in (CHANGED, RESUMES):
        if told in attempt.outcome.settings:
            notice(attempt.outcome.settings[told])
    if attempt.troubles:
        return 1
    if kept is not None:
        notice(f"the record of the run is in {kept}; `polyrhythm report {quote(str(kept))}` draws it")
    return 0
