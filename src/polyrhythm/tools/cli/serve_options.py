"""Options that several commands of `polyrhythm serve` have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polyrhythm.tools.cli.options import path_given

Models = Annotated[
    Path,
    typer.Argument(metavar="MODELS", parser=path_given, help="The file, in TOML or JSON, of models and of the sessions that want them."),
]
Machines = Annotated[
    Path, typer.Option("--machines", metavar="SITE", parser=path_given, help="The file, in TOML or JSON, of machines and rules.")
]
Profiles = Annotated[
    Path | None,
    typer.Option("--profiles", metavar="FILE", parser=path_given, help="The measured latencies; default: profiles.json beside MODELS."),
]


def profiles_path(models: Path, given: Path | None) -> Path:
    """The file of profiles."""
    return models.parent / "profiles.json" if given is None else given
