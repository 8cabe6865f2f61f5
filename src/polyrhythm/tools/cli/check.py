"""`polyrhythm check`: what a training function lacks of the recipe for many workers."""

from __future__ import annotations

from typing import Annotated

import typer

from polyrhythm.tools.cli.complete import complete_systems
from polyrhythm.tools.cli.failures import guarded
from polyrhythm.tools.cli.options import Arguments, Job, Json, Options, Seed, Settings, Workers

System = Annotated[
    str, typer.Option("--system", metavar="NAME", help="The system with which it will train.", autocompletion=complete_systems)
]


@guarded
def check(
    job: Job,
    arguments: Arguments = None,
    system: System = "allreduce",
    workers: Workers = 2,
    seed: Seed = 0,
    settings: Settings = None,
    options: Options = None,
    as_json: Json = False,
) -> None:
    """Run the first steps of JOB in virtual time, and list what it lacks of the recipe for many workers."""
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
