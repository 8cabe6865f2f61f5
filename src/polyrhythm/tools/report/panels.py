"""The charts of a page: each as a picture that needs no script, and as what Vega-Lite draws in its place where scripts may run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import altair as alt
import vl_convert

from polyrhythm.tools.report import layers
from polyrhythm.tools.report.adjustments import Decided
from polyrhythm.tools.report.chart import Chart
from polyrhythm.tools.report.shares import Shares
from polyrhythm.tools.report.style import ON_A_PAGE

WIDTH = 460
HEIGHT = 300
_BAR = 22
_STILL_POINTS = 60
_STILL_MARKERS = 100
_LIVE_MARKERS = 300
_SHARES = "Parts of all workers' time until their last steps: computing, and paler waiting for others"
_DECIDED = "A line for each worker, or for each of its links: what its controller set, from when to when"
_HIDDEN = alt.param(name="hidden", value=[])
_SHOWN = "indexof(hidden, datum.name) < 0"


@dataclass(frozen=True, slots=True)
class Panel:
    """A chart as the page shows it: text in HTML, `still` as SVG, `live` as a specification of Vega-Lite, `height` for a width of 460."""

    title: str
    subtitle: str
    notes: list[str]
    still: str
    live: dict[str, Any]
    height: int


def curves(chart: Chart) -> Panel:
    """The lines of `chart`, which in the page show their numbers where the pointer is near."""
    thin = chart.thinned(_STILL_POINTS)
    points = layers.base(thin, ON_A_PAGE)
    still = alt.LayerChart(layer=[layers.lines(points, thin), *layers.markers(points, thin, _STILL_MARKERS), *layers.goal(thin, ON_A_PAGE)])
    points = layers.base(chart, ON_A_PAGE).transform_filter(_SHOWN)
    drawn = [layers.lines(points, chart), *layers.markers(points, chart, _LIVE_MARKERS), *layers.goal(chart, ON_A_PAGE)]
    live = alt.LayerChart(layer=[*drawn, layers.near(points, chart)]).add_params(_HIDDEN)
    return Panel(chart.title, chart.subtitle, chart.notes, _picture(still, HEIGHT), _specification(live), HEIGHT)


def shared_out(shares: Sequence[Shares]) -> Panel:
    """A bar for each system: how much of its time it computed, and how much it waited."""
    bars = _bars(shares)
    height = 30 + _BAR * len(shares)
    live = alt.LayerChart(layer=[bars.transform_filter(_SHOWN)]).add_params(_HIDDEN)
    return Panel("Who computed, who waited", _SHARES, [], _picture(alt.LayerChart(layer=[bars]), height), _specification(live), height)


def adjusted(setting: str, lines: Sequence[Decided]) -> Panel:
    """The values that were decided for a setting, a step at a time: a line for each worker, or for each of its links."""
    rows = [
        {"name": line.series.name, "label": line.label, "x": time, "y": value}
        for line in lines
        for time, value in zip(line.times, line.values, strict=True)
    ]
    steps: alt.Chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(interpolate="step-after", strokeWidth=1.5, opacity=0.7)
        .encode(
            x=alt.X("x:Q").scale(zero=True).axis(labelExpr=layers.IN_SECONDS, tickCount=6).title("seconds"),
            y=alt.Y("y:Q").scale(zero=True).axis(tickCount=6, format="~s").title(None),
            color=layers.hues([line.series for line in lines], ON_A_PAGE),
            detail="label:N",
            tooltip=[alt.Tooltip("label:N", title="who"), alt.Tooltip("y:Q", title=setting)],
        )
    )
    live = alt.LayerChart(layer=[steps.transform_filter(_SHOWN)]).add_params(_HIDDEN)
    title = f"Decided while running: {setting}"
    return Panel(title, _DECIDED, [], _picture(alt.LayerChart(layer=[steps]), HEIGHT), _specification(live), HEIGHT)


def finished(title: str, subtitle: str, notes: list[str], drawn: alt.LayerChart, height: int) -> Panel:
    """A panel whose picture in the page is the same with scripts and without."""
    live = drawn.add_params(_HIDDEN)
    return Panel(title, subtitle, notes, _picture(drawn, height), _specification(live), height)


@cache
def program() -> str:
    """The libraries that draw in a browser, as vl-convert brings them: nothing is fetched. About 0.9 MB."""
    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def _bars(shares: Sequence[Shares]) -> alt.Chart:
    rows = []
    for one in shares:
        for what, begin, end, opacity in (
            ("computing", 0.0, one.computing, 1.0),
            ("waiting", one.computing, one.computing + one.waiting, 0.25),
        ):
            rows.append({"name": one.series.name, "from": begin, "to": end, "share": f"{end - begin:.0%} {what}", "opacity": opacity})
    bars: alt.Chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_bar(height=12)
        .encode(
            x=alt.X("from:Q").scale(domain=[0, 1]).axis(format="%", tickCount=5).title(None),
            x2="to:Q",
            y=alt.Y("name:N").sort([one.series.name for one in shares]).axis(grid=False, labelLimit=140).title(None),
            color=layers.hues([one.series for one in shares], ON_A_PAGE),
            opacity=alt.Opacity("opacity:Q").scale(None),
            tooltip=[alt.Tooltip("name:N", title="system"), "share:N"],
        )
    )
    return bars


def _picture(drawn: alt.LayerChart, height: int) -> str:
    """The chart as SVG for a page, of the same size whatever its labels."""
    fitted = drawn.properties(width=WIDTH, height=height, autosize=alt.AutoSizeParams(type="fit", contains="padding"))
    svg: str = vl_convert.vegalite_to_svg(_specification(fitted))
    return svg.replace(' xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"', "", 1)


def _specification(drawn: alt.LayerChart) -> dict[str, Any]:
    """The chart as Vega-Lite reads it, without the address of its schema: the page names no other place."""
    made: dict[str, Any] = layers.dressed(drawn, ON_A_PAGE).to_dict()
    del made["$schema"]
    made["config"]["aria"] = False  # the page describes each chart in HTML; labels of every dot would be noise, and a third of the file
    return made
