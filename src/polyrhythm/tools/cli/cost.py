"""`polyrhythm cost`: what a training step of a model costs among workers, by formulas."""

from __future__ import annotations

from typing import Annotated

import typer

from polyrhythm.tools.cli.failures import guarded
from polyrhythm.tools.cli.options import Arguments, DeviceName, Job, Json, NetworkName, Settings, number_of_workers

Count = Annotated[int, typer.Option("--workers", metavar="P", parser=number_of_workers, help="How many workers there are.")]
ModelName = Annotated[str | None, typer.Option("--model", metavar="NAME", help="Which model, if the JOB attaches several.")]


@guarded
def cost(
    job: Job,
    arguments: Arguments = None,
    workers: Count = 2,
    network: NetworkName = None,
    device: DeviceName = None,
    model: ModelName = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Show the work and depth of a JOB's model, and what collectives and partitions of a training step take among P workers.

    The model and the batch of a worker are those of the JOB's first step.
    """
    from polyrhythm.core.simulator import Simulator
    from polyrhythm.export.captured import captured
    from polyrhythm.export.recorded_run import RecordedJob
    from polyrhythm.tools.cli.output import console, print_json, reserved
    from polyrhythm.tools.cli.pairs import pairs
    from polyrhythm.tools.costs import model_cost

    with reserved(as_json), RecordedJob(job, tuple(arguments or ()), pairs(settings or [], "--set")).opened() as train:
        _, chosen = captured(train, model, most=1)
    found = model_cost(
        chosen.model, chosen.inputs[0], workers=workers, on=Simulator(network=network or "lan", devices=device or "cpu-core")
    )
    if as_json:
        print_json(found.data())
    else:
        console().print(str(found))
