"""Candidates as points: two quantities of each, and which of them no other beats in both."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import altair as alt

from polyrhythm.tools.report import layers
from polyrhythm.tools.report.axis import decades
from polyrhythm.tools.report.panels import HEIGHT, Panel, finished
from polyrhythm.tools.report.style import ON_A_PAGE

Channel = TypeVar("Channel", alt.X, alt.Y)

_FONT, _LONGEST, _LETTER = 10, 150, 0.62
"""Pixels, and the width of a letter as a part of its height."""
_WIDTH, _MARGIN, _PADDING, _OVER = 380.0, 90.0, 16.0, 24.0
"""About what is left of a panel for points, in pixels; how far a name may stand out."""
_NAMED = 8
"""So many points of a front have their names next to them."""


@dataclass(frozen=True, slots=True)
class ScatterPoint:
    """A candidate's name, its place, whether it is on the Pareto front, and its hue."""

    name: str
    x: float
    y: float
    leads: bool
    hue: str = ON_A_PAGE.soft


@dataclass(frozen=True, slots=True)
class ScatterAxis:
    """An axis: its title, the format of its numbers (an expression of Vega), and whether it is logarithmic."""

    title: str
    text: str = ""
    log: bool = True


SECONDS = ScatterAxis("seconds to the target", layers.IN_SECONDS)
BYTES = ScatterAxis("bytes sent to the target", layers.IN_BYTES)


def scatter(title: str, points: Sequence[ScatterPoint], x: ScatterAxis, y: ScatterAxis) -> Panel:
    """All candidates, paler where another beats them in both; the front as a line."""
    rows = [
        {"name": each.name, "x": each.x, "y": each.y, "leads": each.leads, "hue": each.hue, "opacity": 1.0 if each.leads else 0.35}
        for each in points
    ]
    named = _apart([each for each in points if each.leads], points, x, y)
    whole: alt.Chart = alt.Chart(alt.InlineData(values=rows)).encode(
        x=_channel(alt.X("x:Q"), x, [each.x for each in points]), y=_channel(alt.Y("y:Q"), y, [each.y for each in points])
    )
    dots = whole.mark_point(filled=True, size=46).encode(
        color=alt.Color("hue:N").scale(None),
        opacity=alt.Opacity("opacity:Q").scale(None),
        tooltip=[alt.Tooltip("name:N", title="candidate")],
    )
    front = whole.transform_filter("datum.leads").mark_line(color=ON_A_PAGE.soft, strokeWidth=1.5, interpolate="step-after")
    names = [
        alt.Chart(alt.InlineData(values=[{"name": each.name, "x": each.x, "y": each.y}]))
        .mark_text(align=align, dx=7 if align == "left" else -7, dy=dy, color=ON_A_PAGE.soft, fontSize=_FONT, limit=_LONGEST)
        .encode(x="x:Q", y="y:Q", text="name:N")
        for each, align, dy in named
    ]
    subtitle = f"{x.title}; the line joins what no other candidate beats in both"
    return finished(title, subtitle, [], alt.LayerChart(layer=[front, dots, *names]), HEIGHT)


Box = tuple[float, float, float, float]
Side = Literal["left", "right"]
_PLACES: tuple[tuple[Side, float], ...] = (("left", -7.0), ("left", 9.0), ("right", -7.0), ("right", 9.0), ("left", -20.0), ("left", 22.0))
"""Where a name may stand, the best first: right or left of its point, and so many pixels below it."""


def _apart(
    leading: Sequence[ScatterPoint], points: Sequence[ScatterPoint], x: ScatterAxis, y: ScatterAxis
) -> list[tuple[ScatterPoint, Side, float]]:
    """The first few of `leading` with the side and height of their names, none over another; one for which there is no room has none."""
    across, up = _placed([each.x for each in points], x, _WIDTH), _placed([each.y for each in points], y, HEIGHT - _MARGIN)
    taken: list[Box] = []
    named: list[tuple[ScatterPoint, Side, float]] = []
    for each in leading[:_NAMED]:
        left, top = across(each.x), HEIGHT - _MARGIN - up(each.y)
        for align, dy in _PLACES:
            box = _box(each.name, left, top + dy, align)
            if box[0] >= -_OVER and box[2] <= _WIDTH + _OVER and not any(_meet(box, other) for other in taken):
                taken.append(box)
                named.append((each, align, dy))
                break
    return named


def _placed(values: Sequence[float], axis: ScatterAxis, length: float) -> Callable[[float], float]:
    """A function that gives the place of a value on an axis of that length, in pixels."""
    log = axis.log and min(values) > 0
    scale = math.log if log else float
    low, high = scale(min(values)), scale(max(values))
    return lambda value: length / 2 if high == low else (scale(value) - low) / (high - low) * (length - 2 * _PADDING) + _PADDING


def _box(name: str, left: float, middle: float, align: str) -> Box:
    """The rectangle that a name covers."""
    width = min(_LONGEST, _FONT * _LETTER * len(name))
    begin = left + 7 if align == "left" else left - 7 - width
    return begin, middle - _FONT * 0.7, begin + width, middle + _FONT * 0.7


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _channel(channel: Channel, axis: ScatterAxis, values: Sequence[float]) -> Channel:
    written: dict[str, Any] = {"tickCount": 6} | ({"labelExpr": axis.text} if axis.text else {})
    if axis.log and values and min(values) > 0:
        written["values"] = decades(values)
        channel = channel.scale(type="log", nice=False, padding=_PADDING)
    else:
        if values and min(values) >= 0:  # the padding reaches below 0, where there is nothing to name
            written["labelExpr"] = f"datum.value < 0 ? '' : ({axis.text or 'datum.label'})"
        channel = channel.scale(zero=False, padding=16)
    found: Channel = channel.axis(**written).title(axis.title)
    return found
