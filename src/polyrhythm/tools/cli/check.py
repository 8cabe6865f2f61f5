"""`polyrhythm check`: what a training function lacks of the recipe for many workers, or what is wrong in a script of torch.distributed."""

from __future__ import annotations

from typing import Annotated

import typer

from polyrhythm.tools.cli.complete import complete_systems
from polyrhythm.tools.cli.failures import guarded
from polyrhythm.tools.cli.options import Arguments, Job, Json, Options, Seed, Settings, Workers

System = Annotated[
    str | None,
    typer.Option("--system", metavar="NAME", help="The system with which a job will train (allreduce).", autocompletion=complete_systems),
]
Twin = Annotated[
    str | None,
    typer.Option("--twin", metavar="FILE.py:FUNCTION", help="Of a script: what trains in one process, if the script cannot with one rank."),
]
Steps = Annotated[int, typer.Option("--steps", metavar="N", min=1, help="Of a script: how many steps are looked at.")]
Collectives = Annotated[
    bool, typer.Option("--collectives", help="Of a script: print what each line's collectives move, and over which axis.")
]
Recipe = Annotated[
    bool,
    typer.Option("--recipe", help="Of a script: also what it lacks of the recipe for data parallelism: rate, weights, files, samples."),
]


@guarded
def check(
    job: Job,
    arguments: Arguments = None,
    system: System = None,
    workers: Workers = 2,
    seed: Seed = 0,
    settings: Settings = None,
    options: Options = None,
    twin: Twin = None,
    steps: Steps = 2,
    collectives: Collectives = False,
    recipe: Recipe = False,
    as_json: Json = False,
) -> None:
    """Run the first steps of JOB in virtual time, and list what it lacks of the recipe for many workers.

    A script that calls torch.distributed.init_process_group is run with --workers ranks, and beside them in one process: silent errors of
    its gradients, data, dropout, norms and reductions are listed, with line, parameter and known cause.
    """
    from polyrhythm.errors import CompositionError
    from polyrhythm.tools.cli.check_script import ScriptOptions, check_script
    from polyrhythm.tools.cli.scripts import is_script

    if is_script(job):
        if system or settings or options:
            raise CompositionError(
                f"{job} is a script of torch.distributed, which has no --system, --set or --option: leave them out, or give {job}:FUNCTION."
            )
        check_script(job, tuple(arguments or ()), workers, ScriptOptions(twin, steps, collectives, recipe), as_json)
    if twin or collectives or recipe or steps != 2:
        raise CompositionError(
            f"{job} is no script that calls init_process_group, and --twin, --steps, --recipe and --collectives are for those alone."
        )
    _check_job(job, arguments, system or "allreduce", workers, seed, settings, options, as_json)


def _check_job(
    job: str,
    arguments: list[str] | None,
    system: str,
    workers: int,
    seed: int,
    settings: list[str] | None,
    options: list[str] | None,
    as_json: bool,
) -> None:
    from polyrhythm.core.job_files.settings import with_settings
    from polyrhythm.tools.cli.groups import RuntimeOptions
    from polyrhythm.tools.cli.output import print_json, reserved
    from polyrhythm.tools.cli.pairs import pairs
    from polyrhythm.tools.cli.prepare import prepared, typed
    from polyrhythm.tools.cli.presets import compose
    from polyrhythm.tools.recipes.recipe_check import check_recipe

    strategy = compose(system, pairs(options or [], "--option"))
    given_options = typed(job, arguments, workers, RuntimeOptions("simulator"))
    with reserved(as_json), prepared(given_options) as loaded:
        train = with_settings(loaded.train, job, pairs(settings or [], "--set"))
        findings = check_recipe(train, strategy, workers, seed)
    if as_json:
        print_json({"job": job, "system": system, "workers": workers, "findings": findings})
    for finding in () if as_json else findings or [f"{job} follows the recipe for {workers} workers with {system}."]:
        typer.echo(finding)
    raise typer.Exit(1 if findings else 0)
