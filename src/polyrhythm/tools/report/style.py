"""The colours and the type of a chart: plain ones for notebooks and files, a page's own where the page decides between light and dark. All
charts of reports and plans take one of the two styles.
"""

from __future__ import annotations

from dataclasses import dataclass

from polyrhythm.tools.report.series import LIGHT

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"


@dataclass(frozen=True, slots=True)
class ChartStyle:
    """Colours as CSS writes them; `hues` are those of the series, in the order of their places."""

    hues: tuple[str, ...]
    soft: str
    faint: str
    paper: str


ON_WHITE = ChartStyle(tuple(LIGHT), "#5d6672", "#e3e6ea", "#ffffff")
# A stroke may be a variable of the page's style sheet: so one picture serves light and dark, and follows when that changes.
ON_A_PAGE = ChartStyle(tuple(f"var(--c{hue})" for hue in range(len(LIGHT))), "var(--soft)", "var(--faint)", "transparent")
