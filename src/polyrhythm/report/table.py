"""The comparison on a terminal; it fits 80 columns where names are short."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from polyrhythm.report.metrics import Target
from polyrhythm.report.outcome import Outcome
from polyrhythm.report.rows import sheet
from polyrhythm.report.sentence import sentence
from polyrhythm.report.series import Series, by_runtime, circumstances, heading, series_of


def table(outcomes: Sequence[Outcome], target: Target | None = None) -> RenderableType:
    """One table for the real runs, one for the virtual ones, each with its failures below; print it with a rich console."""
    parts: list[RenderableType] = []
    for group in by_runtime(series_of(outcomes)):
        parts += _part(group, target)
    return Group(*parts) if parts else Text("No runs.")


def _part(group: list[Series], target: Target | None) -> list[RenderableType]:
    cells = sheet(group, target)
    # Text everywhere, never str: rich would read [brackets] in a user's names as markup.
    grid = Table(
        box=box.SIMPLE_HEAD,
        title=Text(f"{heading(group)}: {circumstances(group)}", style="bold"),
        title_justify="left",
        pad_edge=False,
        show_edge=False,
        padding=(0, 0),
    )
    for index, column in enumerate(cells.columns):
        grid.add_column(Text(column), justify="left" if index == 0 else "right", no_wrap=index == 0)
    for row, one in zip(cells.rows, cells.order, strict=True):
        grid.add_row(*map(Text, row), style="red" if one.failed else None)
    return [grid, *(Text(remark) for remark in cells.remarks), *([Text("")] if cells.remarks else [])]


def text(outcomes: Sequence[Outcome], target: Target | None = None, width: int = 120) -> str:
    """The table without colours and the sentence under it, for logs and files."""
    console = Console(file=io.StringIO(), width=width, color_system=None, highlight=False, record=False)
    console.print(table(outcomes, target))
    assert isinstance(console.file, io.StringIO)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    return "\n".join(lines).strip("\n") + "\n\n" + sentence(outcomes, target) + "\n"


__all__ = ["sentence", "table", "text"]
