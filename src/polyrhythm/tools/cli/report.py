"""`polyrhythm report`: a page from runs that were kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polyrhythm.tools.cli.failures import guarded
from polyrhythm.tools.cli.options import path_given

Directories = Annotated[list[Path], typer.Argument(metavar="RUN_DIR...", help="Directories written by run --out or compare --out.")]
File = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", parser=path_given, help="Where to write the page; default RUN_DIR/report.html.")
]


@guarded
def report(directories: Directories, out: File = None) -> None:
    """Write a self-contained HTML page about one run, several, or a comparison."""
    from polyrhythm.tools.cli.record import read, write_page

    typer.echo(write_page(read(directories), out or directories[0] / "report.html"))
