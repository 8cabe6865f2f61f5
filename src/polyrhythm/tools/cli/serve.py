"""`polyrhythm serve`: a few models on a few machines, within their latency objectives. One command for each module `serve_…`."""

from __future__ import annotations

import typer

from polyrhythm.tools.cli.parsing import StrictCommand
from polyrhythm.tools.cli.serve_load import load
from polyrhythm.tools.cli.serve_plan import plan
from polyrhythm.tools.cli.serve_profile import profile
from polyrhythm.tools.cli.serve_run import run
from polyrhythm.tools.cli.serve_simulate import simulate

serve = typer.Typer(name="serve", help="Serve a few models on a few machines within their latency objectives.", no_args_is_help=True)

for command in (profile, plan, simulate, run, load):
    serve.command(cls=StrictCommand)(command)
