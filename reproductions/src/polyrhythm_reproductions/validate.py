"""`polyrhythm validate`: whether a report keeps the rules of honest reports."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polyrhythm.tools.cli.failures import guarded
from polyrhythm.tools.cli.options import Json

Files = Annotated[list[Path] | None, typer.Argument(metavar="REPORT.json...", help="Reports: of `polyrhythm reproduce`, or of your own.")]
Schema = Annotated[bool, typer.Option("--schema", help="Print the JSON schema of reports, and nothing else.")]


@guarded
def validate(files: Files = None, schema: Schema = False, as_json: Json = False) -> None:
    """Hold reports against the twelve ways to mislead readers, and four rules of our own; it exits with 1 if one breaks a rule."""
    from polyrhythm.errors import CompositionError
    from polyrhythm.tools.cli.output import print_json
    from polyrhythm_reproductions import outside

    if schema == bool(files):
        raise CompositionError("Give reports to validate, or --schema alone for what a report must have.")
    if schema:
        print_json(outside.schema())
        return
    found = {str(file): outside.broken_by(file) for file in files or ()}
    if as_json:
        print_json([{"report": name, "accepted": not said, "problems": said} for name, said in found.items()])
    else:
        for name, said in found.items():
            typer.echo(f"{name}: {'refused' if said else 'accepted'}")
            for sentence in said:
                typer.echo(f"  {sentence}")
    raise typer.Exit(1 if any(found.values()) else 0)
