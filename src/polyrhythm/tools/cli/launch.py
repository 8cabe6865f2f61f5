"""`polyrhythm launch`: hand a JOB over to an engine, which starts its workers; they join each other without this process."""

from __future__ import annotations

from typing import Annotated

import typer

from polyrhythm.tools.cli.complete import complete_launchers
from polyrhythm.tools.cli.failures import guarded
from polyrhythm.tools.cli.groups import CheckpointOptions, JobOptions, grouped
from polyrhythm.tools.cli.options import Arguments, Engine, Job, Json, Out, Seed, System, Timeout, Workers

On = Annotated[
    str,
    typer.Option("--on", metavar="ENGINE", help="slurm, kubernetes, torchrun or mpi.", autocompletion=complete_launchers),
]
Print = Annotated[bool, typer.Option("--print", help="Print the batch script, the manifest or the command line, and start nothing.")]


@guarded
@grouped
def launch(
    job: Job,
    on: On,
    arguments: Arguments = None,
    workers: Workers = 2,
    engine: Engine = None,
    system: System = "allreduce",
    timeout: Timeout = None,
    seed: Seed = 0,
    *,
    own: JobOptions,
    out: Out = None,
    checkpoints: CheckpointOptions,
    as_json: Json = False,
    print_only: Print = False,
) -> None:
    """Have an engine start the workers of JOB and exit, as sbatch and kubectl do; run it in the foreground under torchrun and mpirun.

    JOB is as in `polyrhythm run`, or a script of your own that calls pr.join. After a loss the engine starts the workers again, and they
    continue from the newest checkpoint, if --checkpoint is given.
    """
    from polyrhythm.tools.cli.launched import LaunchRequest, submission

    named: list[tuple[str, object]] = [
        ("--system", system if system != "allreduce" else None),
        ("--seed", seed or None),
        ("--timeout", timeout),
        ("--out", out),
    ]
    flags = [part for name, value in named if value is not None for part in (name, str(value))]
    flags += [*checkpoints.arguments(), *own.arguments(), *(["--json"] if as_json else [])]
    wanted = LaunchRequest(job, arguments or [], workers, flags, checkpoints.resume, checkpoints.checkpoint is not None)
    wanted.check(system, own.options or [], own.settings or [])
    submitted = submission(on, engine or [], wanted)
    if print_only:
        typer.echo(submitted.text, nl=False)
        return
    raise typer.Exit(submitted.submit())
