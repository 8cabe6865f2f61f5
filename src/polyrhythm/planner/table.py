"""A plan on a terminal, or as text for logs and files."""

from __future__ import annotations

import io

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from polyrhythm.planner.answer import Plan
from polyrhythm.planner.words import columns, row, ruled_out, sentences
from polyrhythm.units import show_seconds

_NAME = 30
"""So many characters of a choice's name stay in one line."""


def show(plan: Plan, console: Console) -> None:
    """Print the answer in words, the table, how to run the first choice, and what was ruled out."""
    # Text everywhere, never str: rich would read [brackets] in a user's names as markup.
    for sentence in sentences(plan):
        console.print(Text(sentence))
    if plan.choices:
        console.print()
        console.print(_table(plan))
        best = plan.choices[0]
        for name, line in (("Run it:         ", best.command), ("In virtual time:", best.rehearsal), ("In Python:      ", best.code)):
            if line:
                console.print(Text(f"{name} {line}"), soft_wrap=True)  # a command stays in one line, to be copied
    if plan.refused:
        console.print(Text("Ruled out:"))
        for line in ruled_out(plan):
            console.print(Text(f"  {line}"))
    whole = f"{plan.runs} runs in virtual time took {show_seconds(plan.seconds)}" + (f", {plan.kept} were known" if plan.kept else "")
    console.print(Text(f"{whole}; {plan.ended}.", style="dim"))


def plan_text(plan: Plan, width: int = 150) -> str:
    """What `polyrhythm plan` prints, without colours, in lines of at most `width` characters."""
    console = Console(file=(written := io.StringIO()), width=width, color_system=None, highlight=False)
    show(plan, console)
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines()) + "\n"


def _table(plan: Plan) -> Table:
    grid = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    for index, column in enumerate(columns(plan)):
        width = min(_NAME, max(len(each.name) for each in plan.choices)) if index == 0 else None
        grid.add_column(Text(column), justify="left" if index == 0 else "right", overflow="fold", min_width=width)
    for choice in plan.choices:
        grid.add_row(*map(Text, row(plan, choice)))
    if plan.alone is not None:
        grid.add_section()
        grid.add_row(*map(Text, ["one worker alone", *row(plan, plan.alone)[1:]]), style="dim")
    return grid
