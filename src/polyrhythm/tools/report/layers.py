"""The layers of a chart in the grammar of Vega-Lite: lines, markers, the target."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

import altair as alt

from polyrhythm.tools.report.axis import decades
from polyrhythm.tools.report.chart import Chart, ChartLine
from polyrhythm.tools.report.series import Series
from polyrhythm.tools.report.style import FONT, ChartStyle

IN_SECONDS = (
    "datum.value == 0 ? '0' : datum.value < 0.001 ? format(datum.value * 1e6, ',.4~r') + ' µs' : "
    "datum.value < 1 ? format(datum.value * 1e3, ',.4~r') + ' ms' : format(datum.value, ',.4~r') + ' s'"
)
IN_BYTES = "datum.value == 0 ? '0' : format(datum.value, '.3~s') + 'B'"


def base(chart: Chart, look: ChartStyle) -> alt.Chart:
    """The points of all lines, with their places and colours and no mark yet."""
    seeds = _seeds(chart)
    rows = [_row(line, seeds[line.series.name]) for line in chart.lines]
    points: alt.Chart = (
        alt.Chart(alt.InlineData(values=rows))
        .transform_flatten(["x", "y", "step"])
        .encode(
            x=alt.X("x:Q").scale(**_scale(chart)).axis(_axis(chart)).title(chart.x_title),
            y=alt.Y("y:Q").scale(zero=False).axis(tickCount=6).title(None),
            color=hues([line.series for line in chart.lines], look),
            detail="label:N",
        )
    )
    return points


def lines(points: alt.Chart, chart: Chart) -> alt.Chart:
    """The lines, thin where several seeds share a look."""
    dashes = {line.series.name: line.series.dash or (1, 0) for line in chart.lines}
    drawn: alt.Chart = points.mark_line(strokeJoin="round", order=False).encode(  # as reported: several may have the same bytes
        strokeDash=alt.StrokeDash("name:N").scale(domain=list(dashes), range=[list(dash) for dash in dashes.values()]).legend(None),
        strokeWidth=alt.StrokeWidth("width:Q").scale(None),
    )
    return drawn


def markers(points: alt.Chart, chart: Chart, most: int) -> list[alt.Chart]:
    """The reports themselves, where they are at most `most` and a line has no other seeds; and always what is the only point."""
    seeds = _seeds(chart)
    few = sum(len(line.x) for line in chart.lines) <= most
    marked = [line for line in chart.lines if len(line.x) == 1 or (few and seeds[line.series.name] == 1)]
    if not marked:
        return []
    symbols = {line.series.name: line.series.symbol for line in marked}
    drawn = points.transform_filter(alt.FieldOneOfPredicate(field="label", oneOf=[line.series.label for line in marked]))
    shape = alt.Shape("name:N").scale(domain=list(symbols), range=list(symbols.values())).legend(None)
    return [drawn.mark_point(filled=True, opacity=1, size=34).encode(shape=shape)]


def goal(chart: Chart, look: ChartStyle) -> list[alt.Chart]:
    """The target as a dotted line, if there is one."""
    if chart.goal is None:
        return []
    return [alt.Chart(alt.InlineData(values=[{"y": chart.goal}])).mark_rule(strokeDash=[2, 3], color=look.soft).encode(y="y:Q")]


def near(points: alt.Chart, chart: Chart) -> alt.Chart:
    """Points that show themselves and their numbers where the pointer is near."""
    apart = ["label", "step", "x"]  # the identifiers of Vega-Lite's own are those of lines: it numbers rows before they are flattened
    pointed = alt.selection_point(name="pointed", fields=apart, on="pointerover", nearest=True, empty=False, clear="pointerout")
    # An expression, because Vega-Lite 6.4 looks for the text of a channel in the wrong place where the nearest point is selected.
    row = "(datum.datum || datum)"  # of the area around the point, or of the point itself
    x = (IN_BYTES if chart.in_bytes else IN_SECONDS).replace("datum.value", f"{row}.x")
    values = {"system": f"{row}.label", chart.metric: f"format({row}.y, '.4~g')", "sent" if chart.in_bytes else "after": x}
    values["step"] = f"{row}.step"
    fields = ", ".join(f"{json.dumps(name)}: {value}" for name, value in values.items())
    shown: alt.Chart = (
        points.mark_point(filled=True, size=70, tooltip=alt.ExprRef(f"{{{fields}}}"))
        .encode(opacity=alt.condition(pointed, alt.value(1), alt.value(0)))
        .add_params(pointed)
    )
    return shown


def hues(series: list[Series], look: ChartStyle) -> alt.Color:
    """The colours of the names in `series`, without a legend."""
    colours = {one.name: look.hues[one.hue] for one in series}
    return alt.Color("name:N").scale(domain=list(colours), range=list(colours.values())).legend(None)


def dressed(chart: alt.LayerChart, look: ChartStyle) -> alt.LayerChart:
    """The chart with the type, grid and colours of `look`."""
    text: dict[str, Any] = {"labelColor": look.soft, "titleColor": look.soft, "labelFontSize": 11, "titleFontSize": 12}
    made: alt.LayerChart = (
        chart.configure(background=look.paper, font=FONT, padding=2)
        .configure_view(stroke=None)
        .configure_axis(gridColor=look.faint, domain=False, ticks=False, titleFontWeight="normal", titlePadding=8, labelPadding=6, **text)
        .configure_legend(labelColor=look.soft, titleColor=look.soft, labelFontSize=11, titleFontSize=12)  # Vega's own is black
        .configure_title(anchor="start", fontSize=14, subtitleColor=look.soft, subtitleFontSize=12, frame="bounds", offset=12)
    )
    return made


def _seeds(chart: Chart) -> Counter[str]:
    """The number of lines that share each name."""
    return Counter(line.series.name for line in chart.lines)


def _row(line: ChartLine, seeds: int) -> dict[str, Any]:
    """A line as one row, its points as lists: a row for each point would repeat the names."""
    return {
        "name": line.series.name,
        "label": line.series.label,
        "width": 2 if seeds == 1 else 1,
        "x": [float(f"{value:.6g}") for value in line.x],
        "y": [float(f"{value:.5g}") if math.isfinite(value) else None for value in line.y],  # JSON has no value for a loss that diverged
        "step": line.clocks,
    }


def _scale(chart: Chart) -> dict[str, Any]:
    return {"type": "log", "nice": False, "padding": 8} if chart.log else {"zero": True}


def _axis(chart: Chart) -> alt.Axis:
    written: dict[str, Any] = {"labelExpr": IN_BYTES if chart.in_bytes else IN_SECONDS, "tickCount": 6}
    if chart.log:
        written["values"] = decades([x for line in chart.lines for x in line.x])
    return alt.Axis(**written)
