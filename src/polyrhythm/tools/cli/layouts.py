"""`polyrhythm layouts`: how to divide a model among workers, and what its replicas exchange."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyrhythm.errors import WorkloadError
from polyrhythm.tools.cli.failures import guarded
from polyrhythm.tools.cli.groups import PrintOptions, grouped
from polyrhythm.tools.cli.options import DeviceName, NetworkName, Seed, number_of_workers, path_given

if TYPE_CHECKING:
    from polyrhythm.tools.layouts import LayoutJob, LayoutSpace

Defines = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        parser=path_given,
        help="A Python file that defines job, a pr.LayoutJob, and space, a pr.LayoutSpace, if not everything is to be tried.",
    ),
]
Count = Annotated[int, typer.Option("--workers", metavar="N", parser=number_of_workers, help="How many workers there are.")]
Each = Annotated[
    str | None, typer.Option("--memory", metavar="SIZE|A,B,C", help="What a worker may need at most, such as 2GB, or a size for each.")
]
Trained = Annotated[int, typer.Option("--runs", metavar="N", min=0, help="How many of the best layouts are trained for a while.")]
Steps = Annotated[int, typer.Option("--steps", metavar="N", min=1, help="The steps of these runs.")]
Goal = Annotated[
    float | None, typer.Option("--to", metavar="LOSS", help="The loss to which their time counts; default one that half of them reach.")
]


@dataclass(frozen=True, slots=True)
class TrialOptions:
    """The short runs."""

    runs: Trained = 4
    steps: Steps = 20
    to: Goal = None
    seed: Seed = 0


@guarded
@grouped
def layouts(
    file: Defines,
    workers: Count = 2,
    network: NetworkName = None,
    device: DeviceName = None,
    memory: Each = None,
    *,
    trials: TrialOptions,
    shown: PrintOptions,
) -> None:
    """Find how to divide a model among workers on given machines: mesh, stages, tensor parallelism, ZeRO, and what replicas exchange.

    Memory is looked at first, then the time of a step, and the best layouts are trained with real gradients in virtual time.
    """
    from polyrhythm.core.simulator import Simulator
    from polyrhythm.tools.cli.output import console, print_json
    from polyrhythm.tools.layouts import ShortRuns, plan_layouts

    job, space = _defined(file)
    on = Simulator(network=network or "lan", devices=device or "cpu-core", seed=trials.seed)
    runs = ShortRuns(trials.runs, trials.steps, trials.to, min(5, trials.steps), trials.seed)
    limits = None if memory is None else [each.strip() for each in memory.split(",")]
    found = plan_layouts(job, on=on, workers=workers, memory=limits[0] if limits and len(limits) == 1 else limits, space=space, runs=runs)
    if shown.as_json:
        print_json(found.rows())
    else:
        console().print(str(found))
    raise typer.Exit(0 if found.layouts else 1)


def _defined(file: Path) -> tuple[LayoutJob, LayoutSpace | None]:
    """The job and the space that a file defines. Raises WorkloadError where it has none."""
    from polyrhythm.core.job_files.script import from_file
    from polyrhythm.tools.layouts import LayoutJob, LayoutSpace

    if not file.is_file():
        raise WorkloadError(f"There is no file {file}: give one that defines job, a pr.LayoutJob.")
    module = vars(from_file(file.resolve(), str(file)))
    job, space = module.get("job"), module.get("space")
    if not isinstance(job, LayoutJob):
        raise WorkloadError(f"{file} defines no job: give it job = pr.LayoutJob(make, loss, optimizer, data, batch_size).")
    if not isinstance(space, LayoutSpace | None):
        raise WorkloadError(f"{file} defines space as {type(space).__name__}: give it space = pr.LayoutSpace(...), or leave it out.")
    return job, space
