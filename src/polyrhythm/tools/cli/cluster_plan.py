"""`polyrhythm cluster plan`: which job runs where, with which system and how many workers, and what a lost host changes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyrhythm.core.units import show_seconds
from polyrhythm.tools.cli.failures import guarded
from polyrhythm.tools.cli.options import Json, Seed, path_given

if TYPE_CHECKING:
    from polyrhythm.tools.scheduling.cluster_plan import ClusterPlan, JobPlan

SiteFile = Annotated[Path, typer.Argument(metavar="SITE", help="The hosts, in TOML or JSON.")]
JobsFile = Annotated[Path, typer.Argument(metavar="JOBS", help="The jobs, each with its training and its target, in TOML or JSON.")]
Kept = Annotated[
    Path | None, typer.Option("--cache", metavar="DIR", parser=path_given, help="Keep the runs of the forecasts here, for later plans.")
]


@guarded
def plan(site: SiteFile, jobs: JobsFile, seed: Seed = 0, cache: Kept = None, as_json: Json = False) -> None:
    """Predict which of the JOBS should run where on SITE, when, with which system and how many workers, by training them in virtual time.

    Each job is trained to its target with real gradients for each number of workers, and timed on each set of hosts. Exits with 1 if a job
    cannot run.
    """
    from polyrhythm.cluster.site_file import load_site
    from polyrhythm.tools.cli.output import print_json
    from polyrhythm.tools.scheduling.cluster_plan import plan_cluster
    from polyrhythm.tools.scheduling.training_forecasts import TrainingForecaster
    from polyrhythm.tools.scheduling.training_jobs import goals_of, load_training_jobs

    hosts, wanted = load_site(site), load_training_jobs(jobs)
    forecaster = TrainingForecaster(goals_of(wanted), seed, cache=cache)
    found = plan_cluster(hosts, [each.job for each in wanted], forecaster)
    if as_json:
        print_json(found)
    else:
        _show(found)
    raise typer.Exit(1 if found.refused else 0)


def _show(found: ClusterPlan) -> None:
    from polyrhythm.tools.cli.output import print_rows

    rows = [_row(job) for job in sorted(found.jobs, key=lambda each: (each.starts, each.job))]
    print_rows(["job", "workers", "hosts", "system", "starts", "ends", "cost"], rows)
    for name, why in found.refused.items():
        typer.echo(f"{name} cannot run: {why}.")
    if not found.jobs:
        typer.echo("\nNo job can run here.")
        return
    kind = "the least of all schedules" if found.is_optimal else "the least that was found"
    typer.echo(f"\nMean time to an end: {show_seconds(found.mean_completion)}, {kind}.")
    others = ", ".join(f"{name} {show_seconds(seconds)}" for name, seconds in found.mean_completions.items() if name != "predicted")
    typer.echo(f"By other policies: {others}.\n")
    lost = [
        [
            loss.host,
            "–" if loss.mean_completion is None else show_seconds(loss.mean_completion),
            ", ".join(loss.moved) or "none",
            ", ".join(loss.stranded) or "none",
        ]
        for loss in found.losses
    ]
    print_rows(["if this host is lost", "mean time", "run elsewhere", "cannot run"], lost)


def _row(job: JobPlan) -> list[str]:
    hosts = ", ".join(job.placement.hosts)
    system = job.placement.system or ""
    return [
        job.job,
        str(len(job.placement.slots)),
        hosts,
        system,
        show_seconds(job.starts) if job.starts else "now",
        show_seconds(job.ends),
        f"{job.cost:.3g}" if job.cost else "",
    ]
