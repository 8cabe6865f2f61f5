"""Charts that need no script: an SVG that stretches with the page, its words in HTML so that they do not."""

from __future__ import annotations

from html import escape

from polyrhythm.report.axis import Axis, axis_for, written
from polyrhythm.report.chart import Chart, Line
from polyrhythm.report.series import Series
from polyrhythm.units import show_bytes, show_seconds

_WIDTH = 1000
_HEIGHT = 500
_MOST_POINTS = 120
_MARKED = 60
_DASHES = {"solid": "", "dash": ' stroke-dasharray="7 4"', "dot": ' stroke-dasharray="2 3.5"'}


def draw(chart: Chart) -> str:
    """The chart as HTML: lines and grid as SVG, tick labels placed by percentages."""
    lines = [line.thinned(_MOST_POINTS) for line in chart.lines]
    across = axis_for([x for line in lines for x in line.x], chart.log, from_zero=not chart.log)
    heights = [y for line in lines for y in line.y]
    upright = axis_for(heights if chart.goal is None else [*heights, chart.goal])
    parts = [
        f'<div class="plot"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" aria-hidden="true">',
        _grid(across, upright),
    ]
    if chart.goal is not None:
        parts.append(f'<path class="goal" d="M0 {_y(upright, chart.goal)}H{_WIDTH}"/>')
    parts += [_path(line, across, upright) for line in lines]
    parts += ["</svg>", _labels(chart, across, upright), f'</div><div class="axis">{escape(chart.x_title)}</div>']
    return "".join(parts)


def swatch(series: Series) -> str:
    """A short piece of the series' line with its colour and dash, for legends and tables."""
    return (
        f'<svg class="swatch" viewBox="0 0 26 10" aria-hidden="true"><path class="c{series.place}" d="M1 5H25" fill="none" '
        f'stroke-width="3"{_DASHES[series.dash]}/></svg>'
    )


def _grid(across: Axis, upright: Axis) -> str:
    verticals = "".join(f"M{_x(across, tick)} 0V{_HEIGHT}" for tick in across.ticks())
    horizontals = "".join(f"M0 {_y(upright, tick)}H{_WIDTH}" for tick in upright.ticks())
    return f'<path class="grid" d="{verticals}{horizontals}"/>'


def _path(line: Line, across: Axis, upright: Axis) -> str:
    points = [f"{_x(across, x)} {_y(upright, y)}" for x, y in zip(line.x, line.y, strict=True)]
    name = f'class="c{line.series.place}" data-series="{line.series.place}"'
    drawn = f'<path {name} d="M{"L".join(points)}"{_DASHES[line.series.dash]}/>' if len(points) > 1 else ""
    if len(points) > _MARKED:
        return drawn
    # A line of no length with round ends is a dot that stays round however the picture is stretched.
    shape = "round" if line.series.symbol in ("circle", "diamond") else "square"
    return drawn + f'<path {name} d="{"".join(f"M{point}h0" for point in points)}" stroke-width="6" stroke-linecap="{shape}"/>'


def _labels(chart: Chart, across: Axis, upright: Axis) -> str:
    show = show_bytes if chart.in_bytes else show_seconds
    ticks = across.ticks()
    parts = [
        f'<span class="x" style="left:{100 * across.place(tick):.2f}%">{text}</span>'
        for tick, text in zip(ticks, written(ticks, show), strict=True)
    ]
    parts += [f'<span class="y" style="top:{100 - 100 * upright.place(tick):.2f}%">{tick:g}</span>' for tick in upright.ticks()]
    return "".join(parts)


def _x(axis: Axis, value: float) -> str:
    return f"{_WIDTH * axis.place(value):.5g}"


def _y(axis: Axis, value: float) -> str:
    return f"{_HEIGHT * (1 - axis.place(value)):.4g}"
