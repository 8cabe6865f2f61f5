"""`polyrhythm diagnose`: why a run that was kept is slow, and what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from polyrhythm.tools.cli.failures import guarded
from polyrhythm.tools.cli.options import Json
from polyrhythm.tools.cli.report import Directories

if TYPE_CHECKING:
    from polyrhythm.tools.report.diagnosis import Diagnosis

Joined = Annotated[
    bool, typer.Option("--one-run", help="The directories are those of the workers of one run, which each joined it by `polyrhythm join`.")
]
_PLACES = 6


@guarded
def diagnose(directories: Directories, joined: Joined = False, as_json: Json = False) -> None:
    """Find out why runs were slow: their critical path, by actor and link, and what each change should gain.

    With `run --timeline` the path follows every message.
    """
    from polyrhythm.tools.cli.output import print_json
    from polyrhythm.tools.cli.record import read
    from polyrhythm.tools.report.diagnosis import diagnose, united

    outcomes = read(directories).outcomes
    found = [diagnose(outcome) for outcome in ([united(outcomes)] if joined else outcomes)]
    if as_json:
        print_json(found)
        return
    for each in found:
        _show(each)


def _show(diagnosis: Diagnosis) -> None:
    from rich.table import Table
    from rich.text import Text

    from polyrhythm.core.units import show_seconds
    from polyrhythm.tools.cli.output import console

    out = console()
    where = f" over {diagnosis.network}" if diagnosis.network else ""
    run = f"{diagnosis.system}, {diagnosis.workers} worker{'' if diagnosis.workers == 1 else 's'}{where}, seed {diagnosis.seed}"
    out.print(Text(f"{run}: {show_seconds(diagnosis.seconds)} on the critical path", style="bold"))
    for remark in diagnosis.remarks:
        out.print(Text(remark))
    if not diagnosis.path:
        out.print(Text("No worker took a step, so there is nothing to follow."))
        return
    path = Table("of its time", "", "", box=None, pad_edge=False, header_style="bold")
    for part in diagnosis.path[:_PLACES]:
        path.add_row(f"{part.share:.0%}", part.what, Text(part.where))
    rest = sum(part.share for part in diagnosis.path[_PLACES:])
    if rest >= 0.005:
        path.add_row(f"{rest:.0%}", "elsewhere", "")
    out.print(path)
    out.print()
    if not diagnosis.causes:
        most = max(diagnosis.path, key=lambda part: part.share)
        out.print(Text(f"Nothing is out of the ordinary. Most of the time is {most.what} ({most.share:.0%})."))
        return
    causes = Table("cause", "found", "what to change", "time would be", box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for cause in diagnosis.causes:
        causes.add_row(
            Text(f"{cause.kind}: {cause.where}"), Text(cause.finding), Text(cause.advice), f"× {cause.low:.2g} to {cause.high:.2g}"
        )
    out.print(causes)
