"""Timelines as HTML: a bar for every worker, one block for every run of a group, all with the same seconds across."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from polyrhythm.kernel.port import rank_of
from polyrhythm.report.axis import Axis, written
from polyrhythm.report.series import Series, is_virtual
from polyrhythm.report.static import swatch
from polyrhythm.report.timeline import FULL, Row, Span, rows_of, shares, window
from polyrhythm.units import show_seconds

_WIDTH = 1000
_BAR = 8
_PITCH = 11


def timelines(group: Sequence[Series]) -> str:
    """The section's timelines; nothing where no run recorded who computed."""
    seconds = window(group)
    if seconds <= 0:
        return ""
    blocks = "".join(_block(one, seconds) for one in group if shares(one.outcome) is not None)
    kind = " of virtual time" if is_virtual(group[0].outcome) else ""
    legend = (
        '<span class="key full"></span> computing <span class="key part"></span> waiting for others <span class="key tick"></span> report'
    )
    return (
        f"<h3>Who computed, who waited: the first {escape(show_seconds(seconds))}{kind}</h3>"
        f'<p class="legend">{legend}. A line is a worker; it is paler where many short steps '
        f"computed only part of the time. Percentages are of the whole run and all workers; at most eight are drawn.</p>"
        f'<div class="timelines">{blocks}</div>'
    )


def _block(one: Series, seconds: float) -> str:
    rows = rows_of(one.outcome, seconds)
    parts = shares(one.outcome)
    words = f"{parts[0]:.0%} computing, {parts[1]:.0%} waiting" if parts is not None else ""
    height = _PITCH * len(rows)
    names = "".join(f"<span>{rank_of(row.actor)}</span>" for row in rows)
    drawn = "".join(_row(row, index * _PITCH + (_PITCH - _BAR) / 2, seconds) for index, row in enumerate(rows))
    axis = Axis(0.0, seconds)
    ticks = [tick for tick in axis.ticks()[::2] if axis.place(tick) <= 0.96]
    labels = "".join(
        f'<span class="x" style="left:{100 * axis.place(tick):.1f}%">{escape(text)}</span>'
        for tick, text in zip(ticks, written(ticks, show_seconds), strict=True)
    )
    return (
        f'<figure data-series="{one.place}"><figcaption>{swatch(one)}<b>{escape(one.label)}</b> <span>{escape(words)}</span></figcaption>'
        f'<div class="rows"><div class="ranks">{names}</div><div class="bars"><svg class="c{one.place}" viewBox="0 0 {_WIDTH} {height}" '
        f'preserveAspectRatio="none" style="height:{height}px" aria-hidden="true">{drawn}</svg>{labels}</div></div></figure>'
    )


def _row(row: Row, top: float, seconds: float) -> str:
    parts = [f'<path class="w" d="{_boxes(row.waited, top, seconds)}"/>'] if row.waited else []
    for level, spans in row.computed.items():
        faint = f' opacity="{level / FULL:g}"' if level < FULL else ""
        parts.append(f'<path d="{_boxes(spans, top, seconds)}"{faint}/>')
    if row.reports:
        marks = "".join(f"M{_WIDTH * time / seconds:.5g} {top - 1:g}v{_BAR + 2}" for time in row.reports)
        parts.append(f'<path class="r" d="{marks}"/>')
    return "".join(parts)


def _boxes(spans: Sequence[Span], top: float, seconds: float) -> str:
    """Filled boxes; one too narrow to see is drawn a little wider."""
    scale = _WIDTH / seconds
    return "".join(
        f"M{begin * scale:.5g} {top:g}h{max(0.6, (end - begin) * scale):.4g}v{_BAR}h-{max(0.6, (end - begin) * scale):.4g}z"
        for begin, end in spans
    )
