"""A plan on a terminal, or as text for logs and files."""

from __future__ import annotations

import io
from collections.abc import Collection

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from polyrhythm.core.units import show_seconds
from polyrhythm.tools.planner.answer import Plan
from polyrhythm.tools.planner.how_to_run import show_commands
from polyrhythm.tools.planner.proxy.proxy_table import show_proxy
from polyrhythm.tools.planner.words import columns, row, ruled_out, sentences

_NAME = 30
"""So many characters of a choice's name stay in one line."""
_WIDE = Console(width=500, file=io.StringIO())


def show(plan: Plan, console: Console) -> None:
    """Print the answer in words, the table, how to run the first choice, and what was ruled out."""
    if plan.proxy is not None:
        show_proxy(plan.proxy, console)
        return
    # Text everywhere, never str: rich would read [brackets] in a user's names as markup.
    for sentence in sentences(plan):
        console.print(Text(sentence))
    if plan.choices:
        console.print()
        grid, left_out = _table(plan, console.width)
        console.print(grid)
        if left_out:
            console.print(Text(f"Left out, as the terminal is narrow: {', '.join(left_out)}."), style="dim")
        best = plan.choices[0]
        if best.sure:
            show_commands(best, console)
    if plan.refused:
        console.print(Text("Ruled out:"))
        for line in ruled_out(plan):
            console.print(Text(f"  {line}"))
    whole = f"{plan.runs} runs in virtual time took {show_seconds(plan.seconds)}" + (f", {plan.kept} were known" if plan.kept else "")
    console.print(Text(f"{whole}; {plan.ended}.", style="dim"))


def plan_text(plan: Plan, width: int = 150) -> str:
    """The text that `polyrhythm plan` prints, without colours, in lines of at most `width` characters."""
    console = Console(file=(written := io.StringIO()), width=width, color_system=None, highlight=False)
    show(plan, console)
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines()) + "\n"


def _table(plan: Plan, width: int) -> tuple[Table, list[str]]:
    """The table, and which of its columns are left out so that no number is broken."""
    dispensable = ["memory", plan.target.rpartition(" ")[0], "bytes", *reversed(columns(plan)[columns(plan).index("waits for") :])]
    left_out: list[str] = []
    while (grid := _columns(plan, left_out)).__rich_measure__(_WIDE, _WIDE.options).maximum > width and dispensable:
        left_out.append(dispensable.pop(0))
    return grid, left_out


def _columns(plan: Plan, left_out: Collection[str]) -> Table:
    grid = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    shown = [index for index, column in enumerate(columns(plan)) if column not in left_out]
    for index in shown:
        name = index == 0
        least = min(_NAME, max(len(each.name) for each in plan.choices)) if name else None
        grid.add_column(
            Text(columns(plan)[index]),
            justify="left" if name else "right",
            overflow="fold",
            min_width=least,
            max_width=_NAME,
            no_wrap=not name,
        )
    rows = [row(plan, choice) for choice in plan.choices]
    for cells in rows:
        grid.add_row(*(Text(cells[index]) for index in shown))
    if plan.compared is not None:
        grid.add_section()
        cells = row(plan, plan.compared)
        grid.add_row(*(Text(cells[index]) for index in shown), style="dim")
    return grid
