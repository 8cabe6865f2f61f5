"""Charts of runs for notebooks and files: `chart.save("curves.svg")` writes what a notebook shows, as PNG, SVG, PDF or HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import altair as alt

from polyrhythm.core.records.metrics import Target, metrics_of, primary_metric
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.errors import unknown
from polyrhythm.tools.report import layers
from polyrhythm.tools.report.chart import MOST_POINTS, Chart, over_bytes, over_time
from polyrhythm.tools.report.series import Series, by_runtime, is_virtual, series_of
from polyrhythm.tools.report.style import ON_WHITE

_MARKED = 300


def metric_over_time(outcomes: Outcome | Sequence[Outcome], metric: str | None = None, target: Target | None = None) -> alt.LayerChart:
    """A line for each run: `metric` (the primary one by default) against its seconds, real or virtual."""
    series, chosen = _chosen(outcomes, metric)
    return figure(over_time(series, chosen, target, MOST_POINTS))


def metric_over_bytes(outcomes: Outcome | Sequence[Outcome], metric: str | None = None, target: Target | None = None) -> alt.LayerChart:
    """A line for each run: `metric` (the primary one by default) against the bytes sent so far."""
    series, chosen = _chosen(outcomes, metric)
    return figure(over_bytes(series, chosen, target, MOST_POINTS))


def figure(chart: Chart) -> alt.LayerChart:
    """The chart with title, legend and tooltips."""
    points = layers.base(chart, ON_WHITE)
    if len({line.series.name for line in chart.lines}) > 1:
        points = points.encode(color=points.encoding.color.legend(alt.Legend(title=None, symbolType="stroke", symbolStrokeWidth=3)))
    drawn = [
        layers.lines(points, chart),
        *layers.markers(points, chart, _MARKED),
        *layers.goal(chart, ON_WHITE),
        layers.near(points, chart),
    ]
    title = alt.TitleParams(chart.title, subtitle=chart.subtitle)
    return layers.dressed(alt.LayerChart(layer=drawn).properties(title=title, width=520, height=300), ON_WHITE)


def _chosen(outcomes: Outcome | Sequence[Outcome], metric: str | None) -> tuple[list[Series], str]:
    given = [outcomes] if isinstance(outcomes, Outcome) else list(outcomes)
    series = series_of(given)
    if len(by_runtime(series)) > 1:  # one figure may show both, but never unlabelled
        series = [_distinguished(one) for one in series]
        places = {name: place for place, name in enumerate(dict.fromkeys(one.name for one in series))}
        series = [replace(one, place=places[one.name]) for one in series]
    names = metrics_of(given)
    if metric is not None and metric not in names:
        raise unknown("metric that is reported", metric, names)
    return series, metric or primary_metric(given) or "metric"


def _distinguished(one: Series) -> Series:
    kind = "virtual" if is_virtual(one.outcome) else "real"
    return replace(one, label=f"{one.label}, {kind}", name=f"{one.name}, {kind}")
