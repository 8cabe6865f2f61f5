"""`polyrhythm compare`: several systems train the same JOB, in turn or several at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyrhythm.core.kernel.stopping import exit_code as interrupted
from polyrhythm.core.kernel.stopping import notify, told
from polyrhythm.tools.cli.complete import complete_systems
from polyrhythm.tools.cli.failures import guarded, notice, show_error
from polyrhythm.tools.cli.groups import PrintOptions, RuntimeOptions, grouped
from polyrhythm.tools.cli.options import Arguments, Job, Options, Out, Several

if TYPE_CHECKING:
    from polyrhythm.tools.cli.comparison import ComparisonResult, Settings, SystemComparison

Systems = Annotated[
    str | None,
    typer.Option(
        "--systems",
        metavar="A,B,C|all",
        help="The systems, in the order of their runs; default all, of a script none.",
        autocompletion=complete_systems,
    ),
]
Goal = Annotated[
    str | None, typer.Option("--to", metavar="METRIC=VALUE", help="Also show the time and bytes to this target, such as accuracy=0.96.")
]
OneSeed = Annotated[int | None, typer.Option("--seed", metavar="S", help="The root of every random stream; default 0.")]
Seeds = Annotated[
    str | None,
    typer.Option("--seeds", metavar="A..B|A,B,C", help="Run each system under each of these seeds; tables show medians and ranges."),
]
Batch = Annotated[
    int | None,
    typer.Option("--global-batch", metavar="N", help="Samples per step over all workers: sets batch_size to N / workers."),
]
Tune = Annotated[
    list[str] | None,
    typer.Option("--tune", metavar="KEY=A,B,C", help="First try every system with each of these values; may be repeated, for a grid."),
]
TuneSeed = Annotated[
    int | None, typer.Option("--tune-seed", metavar="S", help="The seed of --tune; default: the first seed of the comparison plus 1000.")
]
Jobs = Annotated[int, typer.Option("--jobs", metavar="N", help="Simulator: how many runs to make in parallel, each on a core of its own.")]
JobsOn = Annotated[
    str, typer.Option("--jobs-on", metavar="host|ray", help="Where the --jobs are made: on this host, or on a Ray cluster (RAY_ADDRESS).")
]
Each = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="[SYSTEM.]KEY=VALUE", help="A setting of the JOB, for all or for one system: lr=0.1, ssp.lr=0.02; may be repeated."
    ),
]


@guarded
@grouped
def compare(
    job: Job,
    arguments: Arguments = None,
    systems: Systems = None,
    workers: Several = None,
    *,
    where: RuntimeOptions,
    seed: OneSeed = None,
    seeds: Seeds = None,
    global_batch: Batch = None,
    settings: Each = None,
    options: Options = None,
    tune: Tune = None,
    tune_seed: TuneSeed = None,
    target: Goal = None,
    jobs: Jobs = 1,
    jobs_on: JobsOn = "host",
    out: Out = None,
    shown: PrintOptions,
) -> None:
    """Train JOB with each of several systems, with the same seeds and settings, and compare them.

    JOB may be a script of torch.distributed: --systems are then those of its `pr.join()`, and --set lr=0.1 gives it --lr 0.1. There may be
    several --network, --device and --workers, with commas between.
    """
    from polyrhythm.core.records.directory import RUN
    from polyrhythm.tools.cli.comparison import SystemComparison
    from polyrhythm.tools.cli.kinds import kind_of
    from polyrhythm.tools.cli.output import reserved
    from polyrhythm.tools.cli.prepare import directory
    from polyrhythm.tools.cli.request import ComparisonOptions, requested
    from polyrhythm.tools.cli.variants import together, variants

    apart = (settings or (), options or (), tune or (), tune_seed)
    given = ComparisonOptions(systems, seed, seeds, global_batch, *apart, target, jobs, jobs_on)
    kind = kind_of(job)
    several = variants(job, arguments, workers or kind.counts, kind.settled(where))
    request = requested(kind, several, together(several, where), given)
    with reserved(shown.as_json), kind.prepared(several[0].typed, "" if request.goal is None else request.goal.metric) as first:
        loaded = {each.label: first.at(each.typed) for each in several}
        own = request.settings(first)
        result = _make(SystemComparison(request, loaded, directory(out, RUN), watched=shown.watched), own)
    _show(result, shown.as_json)
    raise typer.Exit(exit_code(result, kept=out is None or _keep(result, out)))


def _make(runs: SystemComparison, settings: Settings) -> ComparisonResult:
    try:
        return runs.make(settings)
    except KeyboardInterrupt as problem:
        if runs.out is None:
            raise
        notify(f"{told(problem)}: the runs that have ended are in {runs.out}; the same command goes on from there, and report draws them")
        raise typer.Exit(interrupted(problem)) from None


def _show(result: ComparisonResult, as_json: bool) -> None:
    from polyrhythm.tools.cli.output import print_grid, print_json, print_outcomes, print_steps
    from polyrhythm.tools.cli.tuning import grid_of

    if as_json:
        print_json(result.comparison)
        return
    if result.comparison.tuning is not None:
        print_grid(grid_of(result.comparison.tuning))
    print_outcomes(result.outcomes, result.comparison.target)
    print_steps(result.outcomes)


def _keep(result: ComparisonResult, out: Path) -> bool:
    """Write the record and the page; a failure does not lose the runs."""
    from polyrhythm.errors import CompositionError
    from polyrhythm.tools.cli.record import keep

    try:
        notice(f"the report is in {keep(result.comparison, result.outcomes, out)}")
    except CompositionError as error:
        show_error(error)
        return False
    return True


def exit_code(result: ComparisonResult, kept: bool) -> int:
    """The exit code: 1 where any run of the comparison failed, or any record is not whole; that a choice of --tune fails is no failure."""
    failed = any(outcome.summary.error is not None for outcome in result.outcomes)
    torn = any(outcome.remarks for outcome in (*result.tried, *result.outcomes))
    return 1 if failed or torn or not kept else 0
