"""`polyrhythm trace`: a timeline from runs that were kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polyrhythm.tools.cli.failures import guarded
from polyrhythm.tools.cli.options import path_given
from polyrhythm.tools.cli.report import Directories

File = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", parser=path_given, help="Where to write the trace; default RUN_DIR/trace.json.")
]


@guarded
def trace(directories: Directories, out: File = None) -> None:
    """Write a timeline of computing and waiting, as JSON for ui.perfetto.dev and chrome://tracing; a process for each run."""
    from polyrhythm.errors import CompositionError
    from polyrhythm.tools.cli.record import read
    from polyrhythm.tools.report.trace import write

    outcomes = read(directories).outcomes
    file = out or directories[0] / "trace.json"
    try:
        typer.echo(write(outcomes, file))
    except OSError as error:
        raise CompositionError(f"{file} cannot be written: {error.strerror}. Give another place with --out.") from None
