"""Plotly figures of runs, for notebooks and for the page."""

from __future__ import annotations

import html
from collections.abc import Sequence

import plotly.graph_objects as go

from polyrhythm.report.axis import axis_for, written
from polyrhythm.report.chart import MOST_POINTS, Chart, Line, over_bytes, over_time
from polyrhythm.report.metrics import Target, primary_metric
from polyrhythm.report.outcome import Outcome
from polyrhythm.report.series import Series, by_runtime, is_virtual, series_of
from polyrhythm.units import show_bytes, show_seconds

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
_MARKED = 60


def metric_over_time(outcomes: Outcome | Sequence[Outcome], metric: str | None = None, target: Target | None = None) -> go.Figure:
    """A line for each run: `metric` (the primary one by default) against its seconds, real or virtual."""
    series, chosen = _chosen(outcomes, metric)
    return figure(over_time(series, chosen, target, MOST_POINTS))


def metric_over_bytes(outcomes: Outcome | Sequence[Outcome], metric: str | None = None, target: Target | None = None) -> go.Figure:
    """A line for each run: `metric` (the primary one by default) against the bytes sent so far."""
    series, chosen = _chosen(outcomes, metric)
    return figure(over_bytes(series, chosen, target, MOST_POINTS))


def _chosen(outcomes: Outcome | Sequence[Outcome], metric: str | None) -> tuple[list[Series], str]:
    given = [outcomes] if isinstance(outcomes, Outcome) else list(outcomes)
    series = series_of(given)
    if len(by_runtime(series)) > 1:  # one figure may show both, but never unlabelled
        series = [
            Series(f"{one.label}, {'virtual' if is_virtual(one.outcome) else 'real'}", place, one.outcome)
            for place, one in enumerate(series)
        ]
    return series, metric or primary_metric(given) or "metric"


def figure(chart: Chart) -> go.Figure:
    """The chart as plotly draws it; transparent, so that it takes the page's own background."""
    drawn = go.Figure([_trace(line, chart) for line in chart.lines])
    drawn.update_layout(
        template="none",
        title={"text": f"{_plain(chart.title)}<br><sub>{_plain(chart.subtitle)}</sub>", "x": 0, "xref": "paper", "xanchor": "left"},
        font={"family": _FONT, "size": 12},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        margin={"l": 56, "r": 16, "t": 64, "b": 48},
        hovermode="closest",
        legend={"orientation": "v", "x": 1.02, "y": 1},
        xaxis=_x_axis(chart),
        yaxis={"zeroline": False, "gridcolor": "rgba(128,128,128,0.25)", "nticks": 7},
    )
    if chart.goal is not None:
        drawn.add_hline(y=chart.goal, line={"dash": "dot", "width": 1.5, "color": "#888888"})
    return drawn


def _trace(line: Line, chart: Chart) -> go.Scatter:
    x = "%{x:.3s}B" if chart.in_bytes else "%{x:.4~g} s"
    name = _plain(line.series.label)
    return go.Scatter(
        x=[float(f"{value:.6g}") for value in line.x],
        y=[float(f"{value:.5g}") for value in line.y],
        customdata=line.clocks,
        name=name,
        mode="lines+markers" if len(line.x) <= _MARKED else "lines",
        line={"color": line.series.colour, "dash": line.series.dash, "width": 2},
        marker={"symbol": line.series.symbol, "size": 6, "color": line.series.colour},
        legendgroup=str(line.series.place),
        hovertemplate=f"<b>{name}</b><br>{_plain(chart.metric)} %{{y:.4~g}}<br>{x}, step %{{customdata}}<extra></extra>",
    )


def _x_axis(chart: Chart) -> dict[str, object]:
    axis: dict[str, object] = {"title": {"text": _plain(chart.x_title), "standoff": 8}, "type": "log" if chart.log else "linear"}
    axis |= {"gridcolor": "rgba(128,128,128,0.25)", "zeroline": False, "exponentformat": "SI", "nticks": 7}
    if chart.log:
        ticks = axis_for([x for line in chart.lines for x in line.x], log=True).ticks()
        return axis | {"tickvals": ticks, "ticktext": written(ticks, show_bytes if chart.in_bytes else show_seconds)}
    return axis | {"rangemode": "tozero"} | ({"tickformat": "~s", "ticksuffix": "B"} if chart.in_bytes else {})


def _plain(text: str) -> str:
    """Plotly reads tags in its texts, and %{} in its hover texts."""
    return html.escape(text, quote=False).replace("%{", "% {")
