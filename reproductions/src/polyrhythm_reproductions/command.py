"""`polyrhythm reproduce`: a paper's claims, compared with measurements here."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated

import typer

from polyrhythm.tools.cli.failures import guarded, notice
from polyrhythm.tools.cli.options import Json, path_given
from polyrhythm_reproductions.completion import complete_reproductions

if TYPE_CHECKING:
    from polyrhythm_reproductions.conduct import ReproductionPlan
    from polyrhythm_reproductions.findings import ReproductionReport

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME]...", help="Reproductions, or systems.", autocompletion=complete_reproductions),
]
All = Annotated[bool, typer.Option("--all", help="Every reproduction.")]
Quick = Annotated[bool, typer.Option("--quick", help="Less of everything and two seeds: whether it works, not a verdict.")]
Seeds = Annotated[int | None, typer.Option("--seeds", metavar="N", help="How many seeds; default 5, with --quick 2.")]
Jobs = Annotated[int | None, typer.Option("--jobs", metavar="N", help="How many runs at once; default one for each core.")]
Where = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        parser=path_given,
        help="Where pages are written; default docs/reproductions, with --quick runs/reproductions.",
    ),
]
_FULL, _QUICK = 5, 2


@guarded
def reproduce(
    names: Names = None,
    every: All = False,
    quick: Quick = False,
    seeds: Seeds = None,
    jobs: Jobs = None,
    out: Where = None,
    as_json: Json = False,
) -> None:
    """Run the experiments that test the claims of papers, and write a page for each; without a NAME, list them."""
    from polyrhythm.errors import CompositionError
    from polyrhythm.tools.cli.output import print_json
    from polyrhythm_reproductions.registry import REPRODUCTIONS, find

    if not names and not every:
        _list(as_json)
        return
    if names and every:
        raise CompositionError(f"--all runs every reproduction, and {', '.join(names)} were named: leave one of the two out.")
    chosen = list(dict.fromkeys(find(name).name for name in names or REPRODUCTIONS))
    directory = out or Path("runs/reproductions" if quick else "docs/reproductions")
    plan = _plan(quick, seeds, jobs)
    _check_place(directory, chosen, plan)
    errors: list[Exception] = []
    found = list(_conducted(chosen, plan, directory, errors, silent=as_json))
    if as_json:
        print_json(found)
    if errors:
        raise typer.Exit(1)


def _check_place(directory: Path, names: Sequence[str], plan: ReproductionPlan) -> None:
    """Before hours of measuring: whether pages can be written, and none of them takes the place of one with more seeds."""
    from polyrhythm.errors import CompositionError
    from polyrhythm_reproductions.kept import read

    try:
        directory.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=directory):
            pass
    except OSError as problem:
        raise CompositionError(f"Pages cannot be written to {directory}: {problem.strerror}. Give another directory with --out.") from None
    for name in names:
        file = directory / f"{name}.json"
        if file.exists() and not (there := read(file)).quick and (plan.quick or len(there.seeds) > plan.seeds):
            raise CompositionError(
                f"{directory} has a report on {name} with {len(there.seeds)} seeds, which this run would replace by a lesser one: give "
                "another directory with --out."
            )


def _plan(quick: bool, seeds: int | None, jobs: int | None) -> ReproductionPlan:
    from polyrhythm.errors import CompositionError
    from polyrhythm_reproductions.conduct import ReproductionPlan

    count = seeds if seeds is not None else (_QUICK if quick else _FULL)
    for option, value in (("--seeds", count), ("--jobs", jobs)):
        if value is not None and value < 1:
            raise CompositionError(f"{option} {value} runs nothing: give 1 or more.")
    return ReproductionPlan(count, jobs or os.cpu_count() or 1, quick)


def _conducted(
    names: Sequence[str], plan: ReproductionPlan, directory: Path, errors: list[Exception], silent: bool
) -> Iterator[ReproductionReport]:
    from polyrhythm_reproductions.conduct import conduct
    from polyrhythm_reproductions.kept import keep

    def failed(name: str, error: Exception) -> None:
        if len(names) == 1:
            raise error
        notice(f"{name}: {type(error).__name__}: {error}")
        errors.append(error)

    for findings in conduct(names, plan, lambda name: None if silent else notice(f"{name} …"), failed):
        file = keep(findings, directory)
        if not silent:
            _show(findings, file)
        yield findings


def _show(findings: ReproductionReport, file: Path) -> None:
    from rich.table import Table

    from polyrhythm.systems.published_verdicts import UNTESTABLE
    from polyrhythm.tools.cli.output import console
    from polyrhythm_reproductions.page import counted, measured, wanted

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("the paper", "here", "wanted", "measured", "verdict"):
        table.add_column(heading, overflow="fold")
    for claim in findings.claims:
        untestable = claim.verdict == UNTESTABLE
        here, value = (claim.why_not, "") if untestable else (f"{claim.ours} ({claim.unit})", measured(claim))
        table.add_row(claim.paper, here, "" if untestable else wanted(claim).replace("*", ""), value, claim.verdict)
    out = console()
    few = "a quick run, which is no verdict: " if findings.quick else ""
    out.print(f"\n{findings.name}: {few}{findings.verdict}, {counted(findings)} ({len(findings.seeds)} seeds)", style="bold")
    out.print(f"{findings.paper}\n{findings.setting}")
    out.print(table)
    out.print(f"{file}")


def _list(as_json: bool) -> None:
    from rich.table import Table

    from polyrhythm.systems.published_verdicts import shown, verdicts
    from polyrhythm.tools.cli.output import console, print_json
    from polyrhythm_reproductions.registry import REPRODUCTIONS

    known = {each.reproduction: shown(each) for each in verdicts()}
    rows = [
        {"name": each.name, "systems": list(each.systems), "paper": each.paper, "verdict": known.get(each.name, "not tested yet")}
        for each in REPRODUCTIONS.values()
    ]
    if as_json:
        print_json(rows)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("name", "systems", "paper", "verdict"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(str(row["name"]), ", ".join(row["systems"]), str(row["paper"]), str(row["verdict"]))
    console().print(table)
