"""A proxy plan on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from polyrhythm.core.units import show_seconds
from polyrhythm.tools.planner.how_to_run import show_commands
from polyrhythm.tools.planner.proxy.proxy_plan import ProxyPlan
from polyrhythm.tools.planner.proxy.proxy_words import (
    CHOICE_COLUMNS,
    ORIGIN_COLUMNS,
    SIZE_COLUMNS,
    choice_rows,
    origin_rows,
    proxy_sentences,
    refused_lines,
    size_rows,
)


def show_proxy(plan: ProxyPlan, console: Console) -> None:
    """Print the answer, the tables, where the figures come from, and how to run the first choice."""
    for sentence in proxy_sentences(plan):
        console.print(Text(sentence))
    for columns, rows in (
        (CHOICE_COLUMNS, choice_rows(plan)),
        (SIZE_COLUMNS, size_rows(plan)),
        (ORIGIN_COLUMNS, origin_rows(plan)),
    ):
        if rows:
            console.print()
            console.print(_table(columns, rows))
    if plan.best is not None:
        show_commands(plan.best, console)
    if plan.refused:
        console.print(Text("Left out:"))
        for line in refused_lines(plan):
            console.print(Text(f"  {line}"))
    known = f", {plan.kept} were known" if plan.kept else ""
    console.print(Text(f"{plan.runs} runs of small models in virtual time took {show_seconds(plan.seconds)}{known}.", style="dim"))


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    grid = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    for place, column in enumerate(columns):
        words = place == 0 or columns is ORIGIN_COLUMNS
        grid.add_column(Text(column), justify="left" if words else "right", overflow="fold")
    for cells in rows:
        grid.add_row(*map(Text, cells))
    return grid
