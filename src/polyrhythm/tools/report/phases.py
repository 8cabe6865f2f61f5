"""A phase diagram: which system wins over two quantities, and by how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import altair as alt

from polyrhythm.tools.report.panels import Panel, finished
from polyrhythm.tools.report.style import ON_A_PAGE

_ROW = 44
_DARK = 0.55


@dataclass(frozen=True, slots=True)
class Phase:
    """A place of the diagram: its column and row, the winner there, and what is written below its name."""

    column: str
    row: str
    winner: str
    remark: str
    here: bool


@dataclass(frozen=True, slots=True)
class Words:
    """The titles of a diagram and of its axes."""

    title: str
    subtitle: str
    x: str
    y: str


def phase_diagram(words: Words, phases: Sequence[Phase], hues: Mapping[str, str]) -> Panel:
    """A field for each place, in the hue of its winner; where things are as they are now has a frame."""
    rows = [
        {"x": each.column, "y": each.row, "winner": each.winner, "remark": each.remark, "frame": 2.5 if each.here else 0.0}
        for each in phases
    ]
    whole: alt.Chart = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("x:O").sort(list(dict.fromkeys(each.column for each in phases))).axis(labelAngle=0).title(words.x),
        y=alt.Y("y:O").sort(list(dict.fromkeys(each.row for each in phases))).title(words.y),
    )
    fields = whole.mark_rect(opacity=_DARK, stroke=ON_A_PAGE.soft).encode(
        color=alt.Color("winner:N").scale(domain=list(hues), range=list(hues.values())).legend(None),
        strokeWidth=alt.StrokeWidth("frame:Q").scale(None),
        tooltip=[alt.Tooltip("winner:N", title="wins"), alt.Tooltip("remark:N", title="by")],
    )
    names = whole.mark_text(dy=-6, fontSize=10, limit=84, color="var(--ink)").encode(text="winner:N")
    remarks = whole.mark_text(dy=8, fontSize=10, color="var(--ink)").encode(text="remark:N")
    height = 50 + _ROW * len({each.row for each in phases})
    return finished(words.title, words.subtitle, [], alt.LayerChart(layer=[fields, names, remarks]), height)
