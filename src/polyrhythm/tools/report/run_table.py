"""A table about one run of a page."""

from __future__ import annotations

from dataclasses import dataclass

from polyrhythm.tools.report.series import Series


@dataclass(frozen=True, slots=True)
class RunTable:
    """Column titles, and cells with a name first in each row; `remark` says what is left out or behind them."""

    series: Series
    columns: list[str]
    rows: list[list[str]]
    remark: str
