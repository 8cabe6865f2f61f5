"""The comparison on a terminal; thirteen systems with usual names fit 80 columns."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from polyrhythm.core.records.metrics import Target
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.tools.report.rows import sheet
from polyrhythm.tools.report.sentence import sentence
from polyrhythm.tools.report.series import Series, by_runtime, circumstances, heading, series_of

_ROOMY = 96


@dataclass(frozen=True, slots=True)
class ComparisonTable:
    """A table for the real runs and one for the virtual ones, each with its failures below: print it with a rich console."""

    outcomes: Sequence[Outcome]
    target: Target | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        groups = by_runtime(series_of(self.outcomes))
        if not groups:
            yield Text("No runs.")
        for index, group in enumerate(groups):
            if index:
                yield Text("")
            yield from self._part(group, options.max_width >= _ROOMY)

    def _part(self, group: list[Series], roomy: bool) -> Iterator[RenderableType]:
        cells = sheet(group, self.target)
        # Text everywhere, never str: rich would read [brackets] in a user's names as markup.
        yield Text(f"{heading(group)}: {circumstances(group)}", style="bold")
        grid = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1 if roomy else 0))
        for index, column in enumerate(cells.columns):
            grid.add_column(Text(column), justify="left" if index == 0 else "right", no_wrap=index == 0)
        for row, one in zip(cells.rows, cells.order, strict=True):
            grid.add_row(*map(Text, row), style="red" if one.failed else None)
        yield grid
        yield from map(Text, cells.remarks)


def table(outcomes: Sequence[Outcome], target: Target | None = None) -> ComparisonTable:
    """A table of the runs, which `rich.print` and a rich console show."""
    return ComparisonTable(tuple(outcomes), target)


def text(outcomes: Sequence[Outcome], target: Target | None = None, width: int = 120) -> str:
    """The tables without colours and the sentence under them, for logs and files."""
    console = Console(file=(written := io.StringIO()), width=width, color_system=None, highlight=False)
    console.print(table(outcomes, target))
    lines = [line.rstrip() for line in written.getvalue().splitlines()]
    return "\n".join(lines).strip("\n") + "\n\n" + sentence(outcomes, target) + "\n"


__all__ = ["ComparisonTable", "sentence", "table", "text"]
