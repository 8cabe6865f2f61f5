"""`polyrhythm cluster simulate`: policies beside each other on a trace of jobs, in virtual time."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyrhythm.errors import CompositionError
from polyrhythm.tools.cli.failures import guarded, notice
from polyrhythm.tools.cli.options import Json, path_given

if TYPE_CHECKING:
    from polyrhythm.cluster import Cluster
    from polyrhythm.cluster.simulation import ClusterRun, TracedJob, World

TraceFile = Annotated[
    str,
    typer.Argument(
        metavar="TRACE", help="A CSV file in the format of philly, alibaba, tiresias or pollux; or one of these names, for a sample of it."
    ),
]
Site = Annotated[Path | None, typer.Option("--site", metavar="SITE", parser=path_given, help="The hosts, in TOML or JSON.")]
Hosts = Annotated[
    str | None,
    typer.Option(
        "--hosts", metavar="HOSTSxDEVICES", help="Equal hosts, where no SITE is given; default 16x8, for alibaba those of its trace."
    ),
]
Policies = Annotated[str, typer.Option("--policies", metavar="NAMES", help="strict, fifo, binpack, spread, topology, frag, las, srtf.")]
Jobs = Annotated[int, typer.Option("--jobs", metavar="N", min=1, help="The first N jobs of the trace.")]
Seed = Annotated[int, typer.Option("--seed", help="Of samples and failures.")]
Failures = Annotated[
    str | None, typer.Option("--failures", metavar="DURATION", help="A host is lost this often in the mean, such as '6 h'.")
]
Repair = Annotated[str, typer.Option("--repair", metavar="DURATION", help="After this a lost host is there again.")]
Restart = Annotated[str, typer.Option("--restart", metavar="DURATION", help="What a job loses when it starts again.")]
Malleable = Annotated[bool, typer.Option("--malleable", help="Let jobs of several workers go on with fewer, down to one.")]
Durations = Annotated[bool, typer.Option("--durations/--no-durations", help="Whether policies know how long jobs will take.")]
_USUAL = "16x8"
Page = Annotated[
    Path | None, typer.Option("--page", metavar="FILE", parser=path_given, help="Write curves and a Gantt chart as one HTML file.")
]


@guarded
def simulate_jobs(
    trace: TraceFile,
    site: Site = None,
    hosts: Hosts = None,
    policies: Policies = "fifo,binpack,topology,las",
    jobs: Jobs = 500,
    seed: Seed = 0,
    failures: Failures = None,
    repair: Repair = "30 min",
    restart: Restart = "30 s",
    malleable: Malleable = False,
    durations: Durations = True,
    page: Page = None,
    as_json: Json = False,
) -> None:
    """Simulate the jobs of TRACE on a cluster under several policies, beside each other."""
    from polyrhythm.cluster import policy_named
    from polyrhythm.cluster.simulation import simulate_cluster
    from polyrhythm.tools.cli.output import console, print_beside, print_json
    from polyrhythm.tools.cli.prepare import refuse_unwritable
    from polyrhythm.tools.report.cluster_page import COLUMNS, cluster_page, policies_sentence, policy_rows
    from polyrhythm.tools.report.render import written

    refuse_unwritable(page, "--page")
    if site is not None and hosts is not None:
        raise CompositionError(f"--site {site} has hosts, and so has --hosts {hosts}: leave one of them out.")
    configs = {name: policy_named(name) for name in policies.split(",")}
    world = _world(failures, repair, restart)
    traced, cluster, world = _read(trace, site, hosts, (seed, jobs), world)
    traced = _changed(traced, malleable, durations)
    runs = [simulate_cluster(cluster, traced, config, world, name, seed) for name, config in configs.items()]
    if page is not None:
        title = f"{len(traced)} jobs of {Path(trace).name} on {cluster.name}"
        written(page, cluster_page(runs, cluster, title, shlex.join(["polyrhythm", *sys.argv[1:]])))
    status = 0 if any(run.jobs for run in runs) else 1
    if as_json:
        print_json([_figures(run) for run in runs])
        raise typer.Exit(status)
    print_beside(COLUMNS, policy_rows(runs, cluster))
    out = console()
    out.print(policies_sentence(runs))
    for name, reason in sorted(runs[0].unfinished.items())[:5]:
        out.print(f"{name} {reason.sentence}")
    if page is not None:
        notice(f"the page is in {page}")
    raise typer.Exit(status)


def _world(failures: str | None, repair: str, restart: str) -> World:
    """What happens besides the jobs."""
    from polyrhythm.cluster.simulation import ChangeCosts, HostFailures, NoFailures, World
    from polyrhythm.core.units import duration

    costs = ChangeCosts(restart=duration(restart))
    return World(costs=costs, failures=NoFailures() if failures is None else HostFailures(duration(failures), duration(repair)))


def _read(
    trace: str, site: Path | None, hosts: str | None, sample: tuple[int, int], world: World
) -> tuple[list[TracedJob], Cluster, World]:
    """The jobs, the cluster, and the world with measured speeds, where the trace has them."""
    from dataclasses import replace

    from polyrhythm.cluster import Cluster, load_site
    from polyrhythm.cluster.traces import TRACE_FORMATS, pollux_speeds, read_alibaba_hosts, read_trace, write_sample
    from polyrhythm.errors import unknown

    if trace not in TRACE_FORMATS and not Path(trace).suffix and not Path(trace).exists():
        raise unknown("trace or file", trace, TRACE_FORMATS)
    with TemporaryDirectory() as folder:
        path = write_sample(trace, folder, *sample) if trace in TRACE_FORMATS and not Path(trace).exists() else Path(trace)
        traced = list(read_trace(path)[: sample[1]])
        if trace == "alibaba" and site is None and hosts is None:
            cluster = Cluster("alibaba", read_alibaba_hosts(path.with_name("alibaba-hosts.csv")))
        else:
            cluster = _equal(hosts or _USUAL) if site is None else load_site(site)
        measured = path.parent / traced[0].job.name.rpartition("-")[0] / "placements.csv" if traced else path
        if measured.name == "placements.csv" and measured.exists():
            world = replace(world, speeds=pollux_speeds(path))
    return traced, cluster, world


def _equal(text: str) -> Cluster:
    """Equal hosts, as "16x8" says. Raises CompositionError for other text."""
    from polyrhythm.cluster import Cluster, ClusterDevice, ClusterHost

    count, _, devices = text.partition("x")
    if not count.isdecimal() or not devices.isdecimal() or not int(count):
        raise CompositionError(f"--hosts {text!r} is not understood: write the number of hosts and of devices on each, such as 16x8.")
    size = int(devices)
    made = [ClusterHost(f"host-{n:03d}", 16.0 * max(1, size), 10**13, (ClusterDevice(),) * size) for n in range(int(count))]
    return Cluster(text, tuple(made))


def _changed(traced: list[TracedJob], malleable: bool, durations: bool) -> list[TracedJob]:
    """The jobs as the options want them."""
    from dataclasses import replace

    changed = []
    for each in traced:
        least = 1 if malleable else each.job.min_workers
        estimate = each.job.estimate if durations else None
        changed.append(replace(each, job=replace(each.job, min_workers=least, estimate=estimate)))
    return changed


def _figures(run: ClusterRun) -> dict[str, Any]:
    """A run as numbers, in seconds; None for those of jobs where none has run."""
    return {
        "policy": run.policy,
        "jobs": len(run.jobs),
        "mean_completion": run.mean_completion if run.jobs else None,
        "median_completion": run.completion_at(0.5) if run.jobs else None,
        "completion_95": run.completion_at(0.95) if run.jobs else None,
        "mean_wait": run.mean_wait if run.jobs else None,
        "makespan": run.makespan if run.jobs else None,
        "mean_devices_in_use": run.in_use("devices"),
        "mean_cores_in_use": run.in_use("cores"),
        "stops": run.stops,
        "resizes": sum(job.resizes for job in run.jobs),
        "failures": run.failures,
        "unfinished": {name: {"reason": type(reason).__name__, "sentence": reason.sentence} for name, reason in run.unfinished.items()},
    }
