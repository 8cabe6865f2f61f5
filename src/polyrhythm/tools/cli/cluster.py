"""`polyrhythm cluster`: jobs on shared hosts."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyrhythm.tools.cli.cluster_plan import Kept, plan
from polyrhythm.tools.cli.cluster_simulate import simulate_jobs
from polyrhythm.tools.cli.failures import guarded, notice
from polyrhythm.tools.cli.options import Engine, Json, path_given, positive
from polyrhythm.tools.cli.parsing import StrictCommand

if TYPE_CHECKING:
    from polyrhythm.tools.scheduling.status import ClusterStatus, JobStatus

cluster = typer.Typer(no_args_is_help=True, help="Decide which job runs where, and carry it out.")
cluster.command("plan", cls=StrictCommand)(plan)
cluster.command("simulate", cls=StrictCommand)(simulate_jobs)

SiteFile = Annotated[Path, typer.Argument(metavar="SITE", help="The hosts, in TOML or JSON.")]
JobsFile = Annotated[Path, typer.Argument(metavar="JOBS", help="The jobs, each with its training, in TOML or JSON.")]
Policy = Annotated[
    str, typer.Option("--policy", metavar="NAME", help="Which job comes first and where: fifo, las, binpack, topology or predicted.")
]
OutDirectory = Annotated[
    Path, typer.Option("--out", metavar="DIR", parser=path_given, help="Records, logs and the status of all jobs; all hosts must see it.")
]
Reach = Annotated[
    str | None,
    typer.Option(
        "--reach", metavar="COMMAND", help="How a host is reached, such as 'ssh {host}'. Without, all hosts are parts of this machine."
    ),
]
RemotePython = Annotated[str | None, typer.Option("--python", metavar="PATH", help="Python on the hosts; default: the one that runs this.")]
Beats = Annotated[
    float, typer.Option("--beat", metavar="SECONDS", parser=positive, help="The time between two beats of a host; lost after three missed.")
]
Through = Annotated[
    str,
    typer.Option(
        "--through", metavar="ENGINE", help="What starts the workers: agents on hosts (the default), torchrun, ray, slurm or kubernetes."
    ),
]
Watched = Annotated[Path, typer.Argument(metavar="DIR", help="The --out of `polyrhythm cluster run`.")]
Once = Annotated[bool, typer.Option("--once", help="Print the status once, and do not wait for changes.")]

_LOOK_SECONDS = 0.5


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
    through: Through = "hosts",
    engine: Engine = None,
    cache: Kept = None,
    as_json: Json = False,
) -> None:
    """Train the JOBS on the hosts of SITE: each as a whole, when and where the policy says; again where a host is lost."""
    import sys

    from polyrhythm.cluster.site_file import load_site
    from polyrhythm.tools.cli.output import print_json, reserved
    from polyrhythm.tools.cli.prepare import directory
    from polyrhythm.tools.scheduling.carry import carry
    from polyrhythm.tools.scheduling.engines import EngineChoice, backend_through, engine_of
    from polyrhythm.tools.scheduling.host_settings import HostSettings
    from polyrhythm.tools.scheduling.policies import policy as chosen
    from polyrhythm.tools.scheduling.training_forecasts import TrainingForecaster
    from polyrhythm.tools.scheduling.training_jobs import goals_of, load_training_jobs, refuse_absent_files

    hosts, wanted, reached = load_site(site), load_training_jobs(jobs), _reach(site, through, reach)
    if reached is None and engine_of(through).reached:
        refuse_absent_files(wanted)
    launchers = _launchers(through, engine or [])
    config = chosen(policy, lambda: TrainingForecaster(goals_of(wanted, engine_of(through).chosen), cache=cache))
    kept = directory(out) or out
    began, changes = time.monotonic(), _Changes()
    settings = HostSettings(kept.absolute(), reached, python or sys.executable, beat)
    choice = EngineChoice(hosts, wanted, settings, launchers, began)

    def told(status: ClusterStatus) -> None:
        for line in changes.of(status):
            typer.echo(f"{time.monotonic() - began:7.1f} s  {line}", err=as_json)

    with reserved(as_json), closing(backend_through(through, choice)) as backend:
        status = carry(backend, hosts, config, kept, told)
    if as_json:
        print_json(status)
    notice(f"the records and logs of the jobs are in {kept}")
    raise typer.Exit(1 if any(job.state == "failed" for job in status.jobs) else 0)


def _reach(site: Path, through: str, given: str | None) -> str | None:
    """The command that reaches a host: as given, else as SITE has it, for engines that need one."""
    from polyrhythm.cluster.site_file import reach_written
    from polyrhythm.tools.scheduling.engines import engine_of

    return reach_written(site) if given is None and engine_of(through).reached else given


def _launchers(through: str, options: list[str]) -> Callable[[str], Any]:
    """What makes the launcher of a name, with these options. Raises CompositionError for what does not go together."""
    from polyrhythm.errors import CompositionError
    from polyrhythm.tools.cli.groups import RuntimeOptions
    from polyrhythm.tools.cli.runtimes import runtime
    from polyrhythm.tools.scheduling.engines import engine_of

    if options and not engine_of(through).options:
        raise CompositionError(f"--engine {options[0]} is for an engine, such as slurm: give --through slurm too, or leave it out.")
    return lambda name: runtime(RuntimeOptions(on=name, engine=options), 0)


@cluster.command("watch", cls=StrictCommand)
@guarded
def watch(directory: Watched, once: Once = False, as_json: Json = False) -> None:
    """Show the jobs of a `polyrhythm cluster run`: where each is, or why it waits, and which hosts are well; until all are over."""
    from polyrhythm.tools.cli.output import print_json
    from polyrhythm.tools.scheduling.status import is_carried, read_status

    last: ClusterStatus | None = None
    while True:
        status = read_status(directory)
        if status != last:
            print_json(status) if as_json else _show(status)
            last = status
        if once or status.over or not is_carried(status):
            break
        time.sleep(_LOOK_SECONDS)
    if not status.over and not is_carried(status):
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


def _counted(hosts: dict[str, int]) -> str:
    return ", ".join(f"{host} ({count})" for host, count in hosts.items())


def _sentence(job: JobStatus) -> str:
    match job.state:
        case "running":
            return f"runs on {_counted(job.hosts)}"
        case "pending":
            return f"is to run on {_counted(job.hosts)}: {job.reason}"
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
