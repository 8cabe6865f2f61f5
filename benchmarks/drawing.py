"""The medians as bars on a logarithmic axis, one group a network: a self-contained SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from html import escape

_ROW, _LEFT, _WIDTH, _RIGHT = 20, 150, 620, 90
_OURS, _THEIRS = "#2f6fb5", "#b9bec6"


def bars(networks: Mapping[str, Mapping[str, float]], ours: Set[str]) -> str:
    """`networks` holds seconds by way; ways that did not reach the target have no bar. `ours` are drawn in colour."""
    reached = [seconds for ways in networks.values() for seconds in ways.values() if 0 < seconds < math.inf]
    least, most = math.log10(min(reached, default=0.1)) - 0.3, math.log10(max(reached, default=1.0))
    parts: list[str] = []
    y = 10
    for name, ways in networks.items():
        y += _ROW + 6
        parts.append(_text(4, y, f"{name}: seconds to accuracy, logarithmic", "bold"))
        for way in sorted(ways, key=lambda each: ways[each]):
            y += _ROW
            seconds = ways[way]
            parts.append(_text(12, y, way))
            if seconds == math.inf:
                parts.append(_text(_LEFT, y, "not reached"))
                continue
            width = _WIDTH * (math.log10(seconds) - least) / (most - least)
            colour = _OURS if way in ours else _THEIRS
            parts.append(f'<rect x="{_LEFT}" y="{y - 13}" width="{width:.1f}" height="15" fill="{colour}"/>')
            parts.append(_text(_LEFT + width + 6, y, f"{seconds:.2f} s"))
    size = f"0 0 {_LEFT + _WIDTH + _RIGHT} {y + 16}"
    begin = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}" font-family="sans-serif" font-size="13">'
    return "\n".join([begin, '<rect width="100%" height="100%" fill="#fff"/>', *parts, "</svg>"]) + "\n"


def _text(x: float, y: float, words: str, weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y}" font-weight="{weight}" fill="#222">{escape(words)}</text>'
