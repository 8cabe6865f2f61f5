"""Which columns of a table are drawn: those that hold something. Every table, on a terminal or a page, asks here."""

from __future__ import annotations

from collections.abc import Sequence

_NOTHING = frozenset({"", "–"})


def filled(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """The places of the columns in which some row holds something; the first column, which has the names, always."""
    return [place for place in range(len(columns)) if place == 0 or any(row[place].strip() not in _NOTHING for row in rows)]


def only_filled(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """The columns that hold something, and their cells."""
    places = filled(columns, rows)
    return [columns[place] for place in places], [[row[place] for place in places] for row in rows]
