"""Candidates as points: two quantities of each, and which of them no other beats in both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import altair as alt

from polyrhythm.report import layers
from polyrhythm.report.axis import decades
from polyrhythm.report.panels import HEIGHT, Panel, finished
from polyrhythm.report.style import ON_A_PAGE

Channel = TypeVar("Channel", alt.X, alt.Y)

_NAMED = 8
"""So many points of a front have their names beside them."""


@dataclass(frozen=True, slots=True)
class ScatterPoint:
    """A candidate's name, its place, and whether it is on the Pareto front."""

    name: str
    x: float
    y: float
    leads: bool


@dataclass(frozen=True, slots=True)
class Axis:
    """What is on an axis: its title, how its numbers are written (an expression of Vega), and whether it is logarithmic."""

    title: str
    text: str = ""
    log: bool = True


SECONDS = Axis("seconds to the target", layers.IN_SECONDS)
BYTES = Axis("bytes sent to the target", layers.IN_BYTES)


def scatter(title: str, points: Sequence[ScatterPoint], x: Axis, y: Axis) -> Panel:
    """All candidates, paler where another beats them in both; the front as a line."""
    rows = [{"name": each.name, "x": each.x, "y": each.y, "leads": each.leads, "opacity": 1.0 if each.leads else 0.35} for each in points]
    named = [row for row in rows if row["leads"]][:_NAMED]
    whole: alt.Chart = alt.Chart(alt.InlineData(values=rows)).encode(
        x=_channel(alt.X("x:Q"), x, [each.x for each in points]), y=_channel(alt.Y("y:Q"), y, [each.y for each in points])
    )
    hue = ON_A_PAGE.hues[0]
    dots = whole.mark_point(filled=True, size=46, color=hue).encode(
        opacity=alt.Opacity("opacity:Q").scale(None), tooltip=[alt.Tooltip("name:N", title="candidate")]
    )
    front = whole.transform_filter("datum.leads").mark_line(color=hue, strokeWidth=1.5, interpolate="step-after")
    names = (
        alt.Chart(alt.InlineData(values=named))
        .mark_text(align="left", dx=7, dy=-7, color=ON_A_PAGE.soft, fontSize=10, limit=150)
        .encode(x="x:Q", y="y:Q", text="name:N")
    )
    subtitle = f"{x.title}; the line joins what no other candidate beats in both"
    return finished(title, subtitle, [], alt.LayerChart(layer=[front, dots, names]), HEIGHT)


def _channel(channel: Channel, axis: Axis, values: Sequence[float]) -> Channel:
    written: dict[str, Any] = {"tickCount": 6} | ({"labelExpr": axis.text} if axis.text else {})
    if axis.log and values and min(values) > 0:
        written["values"] = decades(values)
        channel = channel.scale(type="log", nice=False, padding=16)
    else:
        channel = channel.scale(zero=False, padding=16)
    found: Channel = channel.axis(**written).title(axis.title)
    return found
