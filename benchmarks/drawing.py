"""Times as bars on a logarithmic axis, in groups: a self-contained SVG, drawn by the library of the package's own charts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from typing import Any

import altair as alt
import vl_convert

_ROW, _WIDTH, _SIZE, _INK = 20, 620, 13, "#222222"
_OURS, _THEIRS = "#2f6fb5", "#b9bec6"


def bars(groups: Mapping[str, Mapping[str, float]], ours: Set[str], what: str) -> str:
    """`groups` hold seconds by way; those that are infinite have no bar. `ours` are drawn in colour; `what` says what took so long."""
    reached = [seconds for ways in groups.values() for seconds in ways.values() if 0 < seconds < math.inf]
    least, most = min(reached, default=0.1) / 2, max(reached, default=1.0)
    parts = [_group(f"{name}: {what}, logarithmic", _rows(ways, ours, least), least, most) for name, ways in groups.items()]
    drawn = (
        alt.VConcatChart(vconcat=parts, spacing=18)
        .configure(background="#ffffff", font="sans-serif", padding=8, aria=False)
        .configure_view(stroke=None)
        .configure_title(anchor="start", frame="bounds", fontSize=_SIZE, color=_INK, offset=6)
        .configure_axis(
            domain=False, ticks=False, labelFontSize=_SIZE, labelColor=_INK, labelPadding=4, labelLimit=300, minExtent=_extent(groups)
        )
    )
    return vl_convert.vegalite_to_svg(drawn.to_dict()) + "\n"


def _rows(ways: Mapping[str, float], ours: Set[str], least: float) -> list[dict[str, Any]]:
    return [
        {
            "way": way,
            "from": least,
            "to": ways[way] if ways[way] < math.inf else least,
            "text": _shown(ways[way]) if ways[way] < math.inf else "not reached",
            "colour": _OURS if way in ours else _THEIRS,
        }
        for way in sorted(ways, key=lambda each: ways[each])
    ]


def _group(title: str, rows: list[dict[str, Any]], least: float, most: float) -> alt.LayerChart:
    base = alt.Chart(alt.InlineData(values=rows)).encode(y=alt.Y("way:N").sort([row["way"] for row in rows]).title(None))
    across = alt.X("from:Q").scale(type="log", domain=[least, most], nice=False).axis(None)
    drawn = base.mark_bar(height=15).encode(x=across, x2="to:Q", color=alt.Color("colour:N").scale(None))
    words = base.mark_text(align="left", dx=6, fontSize=_SIZE, color=_INK).encode(x="to:Q", text="text:N")
    return alt.LayerChart(layer=[drawn, words]).properties(title=title, width=_WIDTH, height=_ROW * len(rows))


def _extent(groups: Mapping[str, Mapping[str, float]]) -> float:
    """Room for the longest name, the same in all groups, so that their bars begin below one another."""
    return 0.56 * _SIZE * max((len(way) for ways in groups.values() for way in ways), default=0)


def _shown(seconds: float) -> str:
    scale, unit = next(((scale, unit) for scale, unit in ((1, "s"), (1e3, "ms")) if seconds * scale >= 0.1), (1e6, "µs"))
    return f"{seconds * scale:,.2f} {unit}" if seconds * scale < 10 else f"{seconds * scale:,.0f} {unit}"
