"""The program `polyrhythm` and its commands, one module each."""

from __future__ import annotations

from typing import Annotated

import typer

from polyrhythm.cli.calibrate import calibrate
from polyrhythm.cli.check import check
from polyrhythm.cli.compare import compare
from polyrhythm.cli.devices import devices
from polyrhythm.cli.diagnose import diagnose
from polyrhythm.cli.join import join
from polyrhythm.cli.lab import lab
from polyrhythm.cli.launch import launch
from polyrhythm.cli.networks import networks
from polyrhythm.cli.parsing import StrictCommand
from polyrhythm.cli.plan import plan
from polyrhythm.cli.report import report
from polyrhythm.cli.reproduce import reproduce
from polyrhythm.cli.run import run
from polyrhythm.cli.systems import systems
from polyrhythm.cli.trace import trace
from polyrhythm.cli.workloads import workloads

app = typer.Typer(
    name="polyrhythm",
    help="Train one PyTorch model on many workers, synchronously or asynchronously: on real processes, or in virtual time.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_COMMANDS = (
    systems,
    plan,
    run,
    join,
    launch,
    check,
    compare,
    reproduce,
    report,
    diagnose,
    trace,
    networks,
    devices,
    workloads,
    calibrate,
)

for command in _COMMANDS:
    app.command(cls=StrictCommand)(command)
# what follows the command of the lab's hosts is theirs, also where it looks like an option of ours
app.command(context_settings={"allow_interspersed_args": False})(lab)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"polyrhythm {version('polyrhythm')}")
        raise typer.Exit


@app.callback()
def everywhere(
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")] = False,
) -> None:
    """Train one PyTorch model on many workers, synchronously or asynchronously: on real processes, or in virtual time."""


def main() -> None:
    """The entry point of the installed program."""
    app()
