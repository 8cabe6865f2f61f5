"""Simulations of a cluster under several policies, as a table and as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence

from polyrhythm.cluster import Cluster
from polyrhythm.cluster.simulation import ClusterRun
from polyrhythm.core.units import show_names, show_seconds
from polyrhythm.tools.report import cluster_panels
from polyrhythm.tools.report.render import rendered
from polyrhythm.tools.report.style import ON_A_PAGE

COLUMNS = ["policy", "mean completion", "median", "95 % within", "mean wait", "all done after", "in use", "stops", "resizes", "never ran"]
_LISTED = 30
_NONE = "–"


def policy_rows(runs: Sequence[ClusterRun], cluster: Cluster) -> list[list[str]]:
    """A row for each policy, in the order of `COLUMNS`."""
    kind = kind_of(cluster)
    return [
        [
            run.policy,
            *(show_seconds(seconds) if run.jobs else _NONE for seconds in _durations(run)),
            f"{run.in_use(kind) / cluster.amount(kind):.0%}",
            str(run.stops),
            str(sum(job.resizes for job in run.jobs)),
            str(len(run.unfinished)),
        ]
        for run in runs
    ]


def _durations(run: ClusterRun) -> tuple[float, ...]:
    """Those of the row, which are of nothing where no job has run."""
    return run.mean_completion, run.completion_at(0.5), run.completion_at(0.95), run.mean_wait, run.makespan


def policies_sentence(runs: Sequence[ClusterRun]) -> str:
    """Which policy completes jobs soonest in the mean, and by how much: among those under which the most jobs complete."""
    most = max(len(run.jobs) for run in runs)
    if not most:
        return f"No job ever ran under {show_names([run.policy for run in runs])}."
    best, *others = sorted((run for run in runs if len(run.jobs) == most), key=lambda run: run.mean_completion)
    fewer = [f"{run.policy} ({len(run.jobs)} of {most})" for run in runs if len(run.jobs) < most]
    behind = f" Fewer jobs complete under {show_names(fewer)}." if fewer else ""
    if not others:
        return f"{best.policy} completes {most} jobs in {show_seconds(best.mean_completion)} in the mean.{behind}"
    last = others[-1]
    slower = f"{last.mean_completion / best.mean_completion:.2f}"
    soonest = f"Jobs complete soonest under {best.policy}, after {show_seconds(best.mean_completion)} in the mean"
    if slower == "1.00":
        same = show_names([run.policy for run in (best, *others)])
        return f"Jobs complete after {show_seconds(best.mean_completion)} in the mean, the same under {same}.{behind}"
    return f"{soonest}; {last.policy} takes {slower} times that.{behind}"


def kind_of(cluster: Cluster) -> str:
    """What is counted: devices if there are any, else cores."""
    return "devices" if cluster.amount("devices") else "cores"


def cluster_page(runs: Sequence[ClusterRun], cluster: Cluster, title: str, command: str | None = None) -> str:
    """The page as text. The same runs give the same bytes."""
    kind = kind_of(cluster)
    total = cluster.amount(kind)
    failures = f", {runs[0].failures} failures of hosts" if runs[0].failures else ""
    unfinished = [[name, reason.sentence] for name, reason in sorted(runs[0].unfinished.items())]
    jobs = len(runs[0].jobs) + len(unfinished)
    return rendered(
        "cluster.html.jinja",
        title=title,
        circumstances=f"{jobs} jobs on {len(cluster.hosts)} hosts with {total:g} {kind}{failures}; virtual time",
        sentences=[policies_sentence(runs)],
        columns=COLUMNS,
        rows=policy_rows(runs, cluster),
        hues=[ON_A_PAGE.hues[place % len(ON_A_PAGE.hues)] for place in range(len(runs))],
        curves=[cluster_panels.completions(runs), cluster_panels.in_use(runs, kind, total), cluster_panels.waiting(runs)],
        charts=[cluster_panels.gantt(run) for run in runs],
        unfinished=unfinished[:_LISTED],
        command=command,
    )
