"""`polyrhythm cluster`: jobs on shared hosts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyrhythm.tools.cli.cluster_simulate import simulate_jobs
from polyrhythm.tools.cli.failures import guarded, notice
from polyrhythm.tools.cli.options import Json
from polyrhythm.tools.cli.parsing import StrictCommand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polyrhythm.cluster import Cluster
    from polyrhythm.tools.scheduling.cluster_plan import ClusterPlan
    from polyrhythm.tools.scheduling.predictions import PlannedForecaster
    from polyrhythm.tools.scheduling.status import ClusterStatus, JobStatus
    from polyrhythm.tools.scheduling.training_jobs import TrainingJob

cluster = typer.Typer(no_args_is_help=True, help="Decide which job runs where, and carry it out.")
cluster.command("simulate", cls=StrictCommand)(simulate_jobs)

SiteFile = Annotated[Path, typer.Argument(metavar="SITE", help="The hosts, in TOML or JSON.")]
JobsFile = Annotated[Path, typer.Argument(metavar="JOBS", help="The jobs, each with its training, in TOML or JSON.")]
Policy = Annotated[
    str, typer.Option("--policy", metavar="NAME", help="Which job comes first and where: fifo, las, binpack, topology or predicted.")
]
OutDirectory = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="Records, logs and the status of all jobs; all hosts must see it.")
]
Reach = Annotated[
    str | None,
    typer.Option(
        "--reach", metavar="COMMAND", help="How a host is reached, such as 'ssh {host}'. Without, all hosts are parts of this machine."
    ),
]
RemotePython = Annotated[str | None, typer.Option("--python", metavar="PATH", help="Python on the hosts; default: the one that runs this.")]
Beats = Annotated[float, typer.Option("--beat", metavar="SECONDS", help="The time between two beats of a host; lost after three missed.")]
Watched = Annotated[Path, typer.Argument(metavar="DIR", help="The --out of `polyrhythm cluster run`.")]
Once = Annotated[bool, typer.Option("--once", help="Print the status once, and do not wait for changes.")]

Budget = Annotated[str, typer.Option("--budget", metavar="TIME", help="How long each forecast may take, such as 20s.")]

_LOOK_SECONDS = 0.5
_FORECAST = "20s"


@cluster.command("run", cls=StrictCommand)
@guarded
def run_jobs(
    site: SiteFile,
    jobs: JobsFile,
    policy: Policy = "fifo",
    out: OutDirectory = Path("runs/cluster"),
    reach: Reach = None,
    python: RemotePython = None,
    beat: Beats = 2.0,
    budget: Budget = _FORECAST,
    as_json: Json = False,
) -> None:
    """Train the JOBS on the hosts of SITE: each as a whole, when and where the policy says; again where a host is lost."""
    import sys

    from polyrhythm.cluster.site_file import load_site
    from polyrhythm.tools.cli.output import print_json
    from polyrhythm.tools.cli.prepare import directory
    from polyrhythm.tools.scheduling.carry import carry
    from polyrhythm.tools.scheduling.cluster_plan import predicted
    from polyrhythm.tools.scheduling.hosts_backend import HostsBackend, HostSettings
    from polyrhythm.tools.scheduling.policies import PREDICTED
    from polyrhythm.tools.scheduling.policies import policy as chosen
    from polyrhythm.tools.scheduling.training_jobs import load_training_jobs

    hosts, wanted = load_site(site), load_training_jobs(jobs)
    config = predicted(hosts, wanted, _forecaster(hosts, wanted, budget)) if policy == PREDICTED else chosen(policy)
    kept = directory(out) or out
    began, changes = time.monotonic(), _Changes()
    backend = HostsBackend(hosts, wanted, HostSettings(kept.absolute(), reach, python or sys.executable, beat), began)

    def told(status: ClusterStatus) -> None:
        for line in changes.of(status):
            typer.echo(f"{time.monotonic() - began:7.1f} s  {line}", err=as_json)

    try:
        status = carry(backend, hosts, config, kept, told)
    finally:
        backend.close()
    if as_json:
        print_json(status)
    notice(f"the records and logs of the jobs are in {kept}")
    raise typer.Exit(1 if any(job.state == "failed" for job in status.jobs) else 0)


@cluster.command("plan", cls=StrictCommand)
@guarded
def plan_jobs(site: SiteFile, jobs: JobsFile, budget: Budget = _FORECAST, as_json: Json = False) -> None:
    """Say which of the JOBS should run on which hosts of SITE, with which system, when, and what follows where a host is not there.

    Each job needs a target. The planner of `polyrhythm plan` is asked once for each job and set of hosts that differ in their machines.
    """
    from polyrhythm.cluster.site_file import load_site
    from polyrhythm.tools.cli.output import print_json, reserved
    from polyrhythm.tools.scheduling.cluster_plan import make_plan
    from polyrhythm.tools.scheduling.training_jobs import load_training_jobs

    hosts, wanted = load_site(site), load_training_jobs(jobs)
    with reserved(as_json):
        made = make_plan(hosts, wanted, _forecaster(hosts, wanted, budget))
    if as_json:
        print_json(made)
    else:
        _show_plan(made)
    raise typer.Exit(1 if made.impossible else 0)


def _forecaster(hosts: Cluster, wanted: Sequence[TrainingJob], budget: str) -> PlannedForecaster:
    from polyrhythm.core.units import duration
    from polyrhythm.tools.scheduling.predictions import PlannedForecaster

    def asked(text: str) -> None:
        notice(f"forecasting {text}")

    return PlannedForecaster(hosts, {each.job.name: each for each in wanted}, duration(budget), asked)


def _show_plan(made: ClusterPlan) -> None:
    from polyrhythm.core.units import show_seconds
    from polyrhythm.tools.cli.output import print_rows

    rows = [
        [job.name, _counted(job.hosts), job.system, show_seconds(job.starts), show_seconds(job.ends), f"{job.cost:.3g}" if job.cost else ""]
        for job in made.jobs
    ]
    print_rows(["job", "hosts (workers)", "system", "starts after", "ends after", "cost"], rows)
    proved = "no plan is better by these forecasts" if made.is_optimal else "the best that was found"
    typer.echo(f"Mean completion {show_seconds(made.mean)}: {proved}.")
    if made.impossible:
        typer.echo(f"No hosts or no way to the target: {', '.join(made.impossible)}.")
    for each in made.without:
        cannot = f", and {', '.join(each.impossible)} cannot run" if each.impossible else ""
        typer.echo(f"Without {each.host}: {show_seconds(each.mean)}{cannot}.")


def _counted(hosts: dict[str, int]) -> str:
    return ", ".join(f"{host} ({count})" for host, count in hosts.items())


@cluster.command("watch", cls=StrictCommand)
@guarded
def watch(directory: Watched, once: Once = False, as_json: Json = False) -> None:
    """Show the jobs of a `polyrhythm cluster run`: where each is, or why it waits, and which hosts are well; until all are over."""
    from polyrhythm.tools.cli.output import print_json
    from polyrhythm.tools.scheduling.status import read_status

    last: ClusterStatus | None = None
    while True:
        status = read_status(directory)
        if status != last:
            print_json(status) if as_json else _show(status)
            last = status
        if once or status.over or not _runs(status.process):
            break
        time.sleep(_LOOK_SECONDS)
    if not status.over and not _runs(status.process):
        notice(f"process {status.process}, which carried these jobs out, is not there any more: start `polyrhythm cluster run` again")
        raise typer.Exit(1)


class _Changes:
    """The sentences about what has changed since the last status."""

    def __init__(self) -> None:
        self._jobs: dict[str, JobStatus] = {}
        self._hosts: dict[str, str] = {}

    def of(self, status: ClusterStatus) -> list[str]:
        """The sentences about hosts that are lost or back, then about jobs."""
        lines = [f"{name} is {health}" for name, health in status.hosts.items() if health != self._hosts.get(name, "healthy")]
        for job in status.jobs:
            before = self._jobs.get(job.name)
            if before is None or (job.state, job.hosts, job.reason) != (before.state, before.hosts, before.reason):
                lines += [f"{job.name} {_sentence(job)}"]
        self._jobs, self._hosts = {job.name: job for job in status.jobs}, dict(status.hosts)
        return lines


def _sentence(job: JobStatus) -> str:
    match job.state:
        case "running":
            return f"runs on {_counted(job.hosts)}"
        case "waiting":
            return f"waits: {job.reason or 'it is to be placed'}"
        case "failed":
            return f"failed: {job.reason}"
    return f"ended after {job.seconds or 0.0:.1f} s"


def _show(status: ClusterStatus) -> None:
    from polyrhythm.tools.cli.output import print_rows

    rows = [[job.name, job.state, job.workers, _where(job), "" if job.seconds is None else f"{job.seconds:.1f} s"] for job in status.jobs]
    print_rows(["job", "state", "workers", "hosts, or why not", "time"], rows)
    ill = [f"{name} is {health}" for name, health in status.hosts.items() if health != "healthy"]
    typer.echo(f"Hosts: {', '.join(ill) or 'all healthy'}.\n")


def _where(job: JobStatus) -> str:
    return job.reason or _counted(job.hosts)


def _runs(process: int) -> bool:
    return Path(f"/proc/{process}").exists()
