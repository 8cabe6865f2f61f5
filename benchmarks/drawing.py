"""Times as bars on a logarithmic axis, in groups: a self-contained SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from html import escape

_ROW, _LETTER, _WIDTH, _RIGHT = 20, 7.5, 620, 90
_OURS, _THEIRS = "#2f6fb5", "#b9bec6"


def bars(groups: Mapping[str, Mapping[str, float]], ours: Set[str], what: str) -> str:
    """`groups` hold seconds by way; those that are infinite have no bar. `ours` are drawn in colour; `what` says what took so long."""
    reached = [seconds for ways in groups.values() for seconds in ways.values() if 0 < seconds < math.inf]
    least, most = math.log10(min(reached, default=0.1)) - 0.3, math.log10(max(reached, default=1.0))
    left = 24 + _LETTER * max((len(way) for ways in groups.values() for way in ways), default=0)
    parts: list[str] = []
    y = 10
    for name, ways in groups.items():
        y += _ROW + 6
        parts.append(_text(4, y, f"{name}: {what}, logarithmic", "bold"))
        for way in sorted(ways, key=lambda each: ways[each]):
            y += _ROW
            seconds = ways[way]
            parts.append(_text(12, y, way))
            if seconds == math.inf:
                parts.append(_text(left, y, "not reached"))
                continue
            width = _WIDTH * (math.log10(seconds) - least) / (most - least)
            colour = _OURS if way in ours else _THEIRS
            parts.append(f'<rect x="{left}" y="{y - 13}" width="{width:.1f}" height="15" fill="{colour}"/>')
            parts.append(_text(left + width + 6, y, _shown(seconds)))
    size = f"0 0 {left + _WIDTH + _RIGHT} {y + 16}"
    begin = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}" font-family="sans-serif" font-size="13">'
    return "\n".join([begin, '<rect width="100%" height="100%" fill="#fff"/>', *parts, "</svg>"]) + "\n"


def _shown(seconds: float) -> str:
    scale, unit = next(((scale, unit) for scale, unit in ((1, "s"), (1e3, "ms")) if seconds * scale >= 0.1), (1e6, "µs"))
    return f"{seconds * scale:,.2f} {unit}" if seconds * scale < 10 else f"{seconds * scale:,.0f} {unit}"


def _text(x: float, y: float, words: str, weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y}" font-weight="{weight}" fill="#222">{escape(words)}</text>'
