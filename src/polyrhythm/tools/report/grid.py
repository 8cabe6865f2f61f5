"""The table of a tuning grid, for the terminal and for the page."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Grid:
    """A heading, a table with a row for each try (the system first), and a remark below it, if any."""

    heading: str
    columns: list[str]
    rows: list[list[str]]
    remark: str = ""
