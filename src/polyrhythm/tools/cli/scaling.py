"""`polyrhythm scaling`: how the loss of a JOB falls with the size of its model."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyrhythm.errors import CompositionError
from polyrhythm.tools.cli.complete import complete_jobs
from polyrhythm.tools.cli.failures import guarded, notice
from polyrhythm.tools.cli.groups import PrintOptions, grouped
from polyrhythm.tools.cli.options import Settings as Given
from polyrhythm.tools.cli.options import path_given, repeated

if TYPE_CHECKING:
    from polyrhythm.tools.scaling.sweep import ScalingReport, ScalingSweep

Families = Annotated[
    list[str], typer.Argument(metavar="JOB...", help="Families to compare: jobs, as for run.", autocompletion=complete_jobs)
]
Sizes = Annotated[
    list[str],
    typer.Option(
        "--sizes", metavar="[JOB.]KEY=A,B,C", help="The setting of size and its values, for all JOBs or for one; may be repeated."
    ),
]
Seeds = Annotated[str, typer.Option("--seeds", metavar="A..B|A,B,C", help="Train each size under each of these seeds.")]
Metric = Annotated[str | None, typer.Option("--metric", metavar="NAME", help="What is fitted; default the first that the JOB reports.")]
Floor = Annotated[
    float, typer.Option("--floor", metavar="VALUE", help="What the metric cannot fall below, such as an entropy that is known.")
]
Goal = Annotated[str | None, typer.Option("--to", metavar="METRIC=VALUE", help="Also fit the samples to this target.")]
Where = Annotated[Path | None, typer.Option("--out", metavar="DIR", parser=path_given, help="Write report.json and report.html there.")]


@guarded
@grouped
def scaling(
    jobs: Families,
    sizes: Sizes,
    seeds: Seeds = "0..2",
    settings: Given = None,
    metric: Metric = None,
    floor: Floor = 0.0,
    target: Goal = None,
    out: Where = None,
    *,
    shown: PrintOptions,
) -> None:
    """Train JOBs at several sizes, and fit power laws of the loss against parameters and operations, with bootstrap intervals.

    Exponents of several JOBs are compared: they are told apart where their 95 % intervals are disjoint.
    """
    from polyrhythm.core.records.metrics import parse_target
    from polyrhythm.tools.cli.fairness import parse_seeds
    from polyrhythm.tools.cli.output import print_json, reserved
    from polyrhythm.tools.cli.pairs import pairs
    from polyrhythm.tools.cli.prepare import directory
    from polyrhythm.tools.scaling.sweep import ScalingSweep, sweep

    goal = None if target is None else parse_target(target)
    wanted = ScalingSweep(_dealt(sizes, jobs), parse_seeds(seeds), pairs(settings or [], "--set"), metric, floor, goal)
    wanted.check()
    place = directory(out)
    with reserved(shown.as_json):
        report = sweep(wanted, notice if shown.watched else lambda _: None)
    if shown.as_json:
        print_json(report)
    else:
        _show(report)
    if place is not None:
        _keep(report, place, _command(jobs, sizes, settings or (), wanted))


def _keep(report: ScalingReport, place: Path, command: str) -> None:
    import msgspec

    from polyrhythm.core.atomic import write
    from polyrhythm.tools.scaling.scaling_page import write_scaling_page

    write(place / "report.json", msgspec.json.format(msgspec.json.encode(report), indent=1))
    notice(f"the report is in {write_scaling_page(report, place / 'report.html', command)}")


def _dealt(given: Sequence[str], jobs: Sequence[str]) -> dict[str, tuple[str, list[str]]]:
    """The setting of size of each job, and its values. Raises CompositionError for jobs without, and for sizes of others."""
    found: dict[str, tuple[str, list[str]]] = {}
    for each in sorted(given, key=lambda each: any(each.startswith(f"{job}.") for job in jobs)):  # those for one job come last
        name, equals, values = each.partition("=")
        owner = next((job for job in jobs if name.startswith(f"{job}.")), "")
        key = name.removeprefix(f"{owner}.") if owner else name
        if not equals or not key:
            raise CompositionError(f"--sizes {each} names no setting and its values: write --sizes width=8,16,32.")
        chosen = [value.strip() for value in values.split(",") if value.strip()]
        found |= dict.fromkeys([owner] if owner else jobs, (key, chosen))
    if missing := [job for job in jobs if job not in found]:
        raise CompositionError(f"{missing[0]} has no sizes: give --sizes {missing[0]}.KEY=A,B,C, or --sizes KEY=A,B,C for all.")
    return {job: found[job] for job in jobs}


def _command(jobs: Sequence[str], sizes: Sequence[str], settings: Sequence[str], wanted: ScalingSweep) -> str:
    own = [*repeated("--sizes", sizes), "--seeds", ",".join(map(str, wanted.seeds)), *repeated("--set", settings)]
    own += [] if wanted.metric is None else ["--metric", wanted.metric]
    own += ["--floor", f"{wanted.floor:g}"] if wanted.floor else []
    own += [] if wanted.target is None else ["--to", f"{wanted.target.metric}={wanted.target.value:g}"]
    return shlex.join(["polyrhythm", "scaling", *jobs, *own])


def _show(report: ScalingReport) -> None:
    from polyrhythm.tools.cli.output import console, print_rows
    from polyrhythm.tools.scaling.scaling_page import LAW_COLUMNS, law_rows, point_columns, point_rows, scaling_sentences

    print_rows(point_columns(report), point_rows(report))
    out = console()
    out.print()
    print_rows(LAW_COLUMNS, law_rows(report))
    for said in scaling_sentences(report):
        out.print(said)
