"""Prints on stdout: tables for people, or one JSON object for programs. Imports no torch: commands that need none stay quick."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any

import msgspec
import typer
from rich.console import Console

if TYPE_CHECKING:
    from polyrhythm.core.records.metrics import Target
    from polyrhythm.core.records.outcome import Outcome
    from polyrhythm.tools.report.grid import Grid

_PIPED_WIDTH = 160
_GAP = 2
"""Spaces between the columns of a table."""


def print_json(value: Any) -> None:
    """One JSON object, one line."""
    typer.echo(msgspec.json.encode(value).decode())


def console() -> Console:
    """Stdout as a terminal of the real width, or wide where it is a pipe or a file."""
    seen = Console(highlight=False, markup=False, emoji=False)
    if not seen.is_terminal and "COLUMNS" not in os.environ:
        seen.width = _PIPED_WIDTH
    return seen


def print_outcomes(outcomes: Sequence[Outcome], target: Target | None = None) -> None:
    """The table of `outcomes`, and a summary sentence."""
    from polyrhythm.tools.report.sentence import sentence
    from polyrhythm.tools.report.table import table

    out = console()
    out.print(table(outcomes, target))
    out.print(sentence(outcomes, target))


def print_steps(outcomes: Sequence[Outcome]) -> None:
    """What a step takes and communicates by mesh axis, in runs of scripts of torch.distributed."""
    from polyrhythm.tools.report.communication import steps_by_axis
    from polyrhythm.tools.report.series import series_of

    found = steps_by_axis(series_of(outcomes))
    if found.rows:
        out = console()
        out.print("\nA step of a rank, and what it sends and waits for on each mesh axis:")
        print_rows(found.columns, found.rows)


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table without lines, of the columns that hold something; nothing without rows."""
    from polyrhythm.tools.report.filled import only_filled

    if rows:
        _print_table(*only_filled(columns, rows))


def print_beside(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """The rows as columns beside each other, in as many tables as the width of the terminal needs: nothing is cut."""
    from polyrhythm.tools.report.filled import only_filled

    columns, rows = only_filled(columns, rows)
    out = console()
    names = max(len(name) for name in columns)
    kept: list[Sequence[str]] = []
    width = names
    for row in rows:
        needed = _GAP + max(len(cell) for cell in row)
        if kept and width + needed > out.width:
            _print_columns(columns, kept)
            out.print()
            kept, width = [], names
        kept.append(row)
        width += needed
    _print_columns(columns, kept)


def _print_columns(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """One table with a name at the beginning of each line, and a column for each row."""
    lines = list(zip(columns, *rows, strict=True))
    _print_table(lines[0], lines[1:])


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.table import Table

    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*row)
    console().print(table)


def print_grid(grid: Grid) -> None:
    """The settings that were tried with each system, their results, and the choice."""
    out = console()
    out.print(grid.heading, style="bold")
    print_rows(grid.columns, grid.rows)
    out.print(f"{grid.remark}\n" if grid.remark else "")


@contextmanager
def reserved(for_json: bool) -> Iterator[None]:
    """Send what training functions print, here or in processes of their own, to stderr while stdout is kept for a JSON object."""
    if not for_json:
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


@contextmanager
def silent() -> Iterator[None]:
    """Drop what this process and those that it starts meanwhile print."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept = [(number, os.dup(number)) for number in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for number, _ in kept:
            os.dup2(nowhere, number)
        yield
    finally:
        os.close(nowhere)
        for number, saved in kept:
            os.dup2(saved, number)
            os.close(saved)
