"""The charts of a simulated cluster: what is in use, how many jobs wait, when jobs complete, and who had which host when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from polyrhythm.cluster.simulation import ClusterRun
from polyrhythm.tools.report import panels
from polyrhythm.tools.report.panels import Panel
from polyrhythm.tools.report.style import ON_A_PAGE

_POINTS = 240
_BARS = 600
_ROW = 18
_MOST_ROWS = 40
_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class _Curve:
    """A line of a chart: numbers over hours, or over seconds."""

    title: str
    subtitle: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    x: str = "hours"
    x_scale: str = "linear"


def in_use(runs: Sequence[ClusterRun], kind: str, total: float) -> Panel:
    """The part of all devices, or cores, in use over time: a line for each policy."""
    column = 1 if kind == "devices" else 2
    lines = {run.policy: _thinned([(each[0] / _HOUR, each[column] / total) for each in run.usage]) for run in runs}
    return _drawn(_Curve(f"In use: {kind}", f"Part of all {total:g}", lines), "%")


def waiting(runs: Sequence[ClusterRun]) -> Panel:
    """The jobs that wait over time: a line for each policy."""
    lines = {run.policy: _thinned([(each[0] / _HOUR, float(each[3])) for each in run.usage]) for run in runs}
    return _drawn(_Curve("Jobs that wait", "Arrived, and not placed", lines), "d")


def completions(runs: Sequence[ClusterRun]) -> Panel:
    """The part of the jobs that has completed within some time of its arrival: a line for each policy."""
    lines = {}
    for run in runs:
        ordered = sorted(max(job.completion, 1.0) / _HOUR for job in run.jobs)
        lines[run.policy] = _thinned([(seconds, (place + 1) / len(ordered)) for place, seconds in enumerate(ordered)])
    curve = _Curve("Completion times", "Part of the jobs, from arrival to end", lines, "hours, logarithmic", "log")
    return _drawn(curve, "%")


def gantt(run: ClusterRun) -> Panel:
    """Which job had which host from when to when; the longest of its segments, if there are many."""
    rows: list[dict[str, Any]] = []
    for part in run.segments:
        for host in part.placement.hosts:
            workers = sum(slot.host == host for slot in part.placement.slots)
            row = {"host": host, "job": part.job, "from": part.begin / _HOUR, "to": part.end / _HOUR, "workers": workers}
            rows.append(row | {"hue": sum(part.job.encode()) % len(ON_A_PAGE.hues)})
    hosts = sorted({row["host"] for row in rows})[:_MOST_ROWS]
    shown = sorted((row for row in rows if row["host"] in hosts), key=lambda row: row["from"] - row["to"])[:_BARS]
    notes = [f"{len(shown)} of {len(rows)} segments: the longest, on {len(hosts)} hosts."] if len(shown) < len(rows) else []
    bars: alt.Chart = (
        alt.Chart(alt.InlineData(values=shown))
        .mark_bar(height=_ROW - 6, opacity=0.55, stroke=ON_A_PAGE.soft, strokeWidth=0.5)
        .encode(
            x=alt.X("from:Q").axis(tickCount=6).title("hours"),
            x2="to:Q",
            y=alt.Y("host:N").sort(hosts).axis(grid=False, labelLimit=120).title(None),
            color=alt.Color("hue:O").scale(domain=list(range(len(ON_A_PAGE.hues))), range=list(ON_A_PAGE.hues)).legend(None),
            tooltip=[alt.Tooltip("job:N"), alt.Tooltip("host:N"), alt.Tooltip("workers:Q")],
        )
    )
    subtitle = "A bar for each time in which a job had workers on a host; bars of one host lie over each other"
    return panels.finished(f"Who was where: {run.policy}", subtitle, notes, alt.LayerChart(layer=[bars]), 40 + _ROW * max(1, len(hosts)))


def _drawn(curve: _Curve, form: str) -> Panel:
    """The lines as a panel, in the colours of the policies."""
    rows = [{"name": name, "x": x, "y": y} for name, points in curve.lines.items() for x, y in points]
    names = list(curve.lines)
    hues = [ON_A_PAGE.hues[place % len(ON_A_PAGE.hues)] for place in range(len(names))]
    drawn: alt.Chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(interpolate="step-after", strokeWidth=1.8)
        .encode(
            x=alt.X("x:Q")
            .scale(type="log" if curve.x_scale == "log" else "linear", nice=True)
            .axis(tickCount=6, format="~g")
            .title(curve.x),
            y=alt.Y("y:Q").axis(tickCount=5, format=form).title(None),
            color=alt.Color("name:N").scale(domain=names, range=hues).legend(None),
            tooltip=[alt.Tooltip("name:N", title="policy")],
        )
    )
    return panels.finished(curve.title, curve.subtitle, [], alt.LayerChart(layer=[drawn]), 220)


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most as many points as a line needs; of each stretch the highest, and the last of all."""
    stretch = -(-len(points) // _POINTS)
    if stretch <= 1:
        return list(points)
    kept = [max(points[begin : begin + stretch], key=lambda point: point[1]) for begin in range(0, len(points), stretch)]
    return [*kept, points[-1]]
