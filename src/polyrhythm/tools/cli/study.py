"""`polyrhythm study`: a grid of factors, each cell measured several times."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyrhythm.tools.cli.complete import complete_studies
from polyrhythm.tools.cli.failures import guarded, notice
from polyrhythm.tools.cli.groups import PrintOptions, grouped
from polyrhythm.tools.cli.options import path_given

if TYPE_CHECKING:
    from polyrhythm.tools.studies.study_report import StudyReport

Given = Annotated[
    str | None,
    typer.Argument(metavar="[GRID.toml|NAME]", help="A study file, or a shipped study; none lists these.", autocompletion=complete_studies),
]
Where = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", parser=path_given, help="Where measurements, report.json and report.html go; default runs/studies/NAME."
    ),
]
Repetitions = Annotated[
    int | None, typer.Option("--repetitions", metavar="N", help="How often each cell is measured, in place of the file's.")
]
Quick = Annotated[bool, typer.Option("--quick", help="Two repetitions: whether it works, without intervals.")]
_QUICK = 2


@guarded
@grouped
def study(given: Given = None, repetitions: Repetitions = None, quick: Quick = False, out: Where = None, *, shown: PrintOptions) -> None:
    """Measure every cell of a grid of factors several times: a table, JSON and a page with medians, intervals and variation.

    The same command goes on where it was broken off. It exits with 1 if a cell failed; one that is refused has not.
    """
    import msgspec

    from polyrhythm.core.atomic import write
    from polyrhythm.errors import CompositionError
    from polyrhythm.tools.cli.output import print_json, reserved
    from polyrhythm.tools.cli.prepare import directory
    from polyrhythm.tools.studies.run_study import run_study
    from polyrhythm.tools.studies.study import load_study
    from polyrhythm.tools.studies.study_page import write_study_page

    if given is None:
        _list(shown.as_json)
        return
    if quick and repetitions is not None:
        raise CompositionError(f"--quick has {_QUICK} repetitions, and --repetitions {repetitions} was given: leave one of the two out.")
    name, wanted = load_study(given)
    if repetitions is not None:
        wanted = msgspec.structs.replace(wanted, repetitions=repetitions)
        wanted.check()
    if quick:
        wanted = msgspec.structs.replace(wanted, repetitions=_QUICK)
    place = directory(out or Path("runs", "studies", name))
    assert place is not None
    with reserved(shown.as_json):
        report = run_study(name, wanted, place, notice if shown.watched else lambda _: None)
    write(place / "report.json", msgspec.json.format(msgspec.json.encode(report), indent=1))
    page = write_study_page(report, place / "report.html", _command(given, repetitions, quick))
    if shown.as_json:
        print_json(report)
    else:
        _show(report)
        notice(f"the report is in {page}")
    raise typer.Exit(1 if report.failed else 0)


def _command(given: str, repetitions: int | None, quick: bool) -> str:
    own = [] if repetitions is None else ["--repetitions", str(repetitions)]
    return shlex.join(["polyrhythm", "study", given, *own, *(["--quick"] if quick else [])])


def _show(report: StudyReport) -> None:
    from polyrhythm.tools.cli.output import console, print_beside
    from polyrhythm.tools.studies.study_page import circumstances, columns, rows, sentences

    out = console()
    out.print(report.title, style="bold")
    for text in (report.paper, report.note, circumstances(report)):
        if text:
            out.print(text)
    for table in report.tables:
        out.print(f"\n{table.name}: {table.about}", style="bold")
        print_beside(columns(table), rows(table, report))
    out.print()
    for text in (*sentences(report), *report.missing):
        out.print(text)


def _list(as_json: bool) -> None:
    from polyrhythm.tools.cli.output import print_json, print_rows
    from polyrhythm.tools.studies.study import every_shipped

    found = [
        {"name": name, "title": each.title, "paper": each.paper, "cells": sum(len(grid.cells()) for grid in each.grids().values())}
        for name, each in every_shipped()
    ]
    if as_json:
        print_json(found)
    else:
        print_rows(["name", "title", "cells", "paper"], [[str(row[key]) for key in ("name", "title", "cells", "paper")] for row in found])
