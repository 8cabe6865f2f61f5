"""The program `polyrhythm` and its commands, one module each."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Annotated

import typer

from polyrhythm.tools.cli.calibrate import calibrate
from polyrhythm.tools.cli.check import check
from polyrhythm.tools.cli.cluster import cluster
from polyrhythm.tools.cli.compare import compare
from polyrhythm.tools.cli.cost import cost
from polyrhythm.tools.cli.devices import devices
from polyrhythm.tools.cli.diagnose import diagnose
from polyrhythm.tools.cli.export import export
from polyrhythm.tools.cli.join import join
from polyrhythm.tools.cli.lab import lab
from polyrhythm.tools.cli.launch import launch
from polyrhythm.tools.cli.layouts import layouts
from polyrhythm.tools.cli.networks import networks
from polyrhythm.tools.cli.parsing import StrictCommand
from polyrhythm.tools.cli.plan import plan
from polyrhythm.tools.cli.report import report
from polyrhythm.tools.cli.run import run
from polyrhythm.tools.cli.scaling import scaling
from polyrhythm.tools.cli.serve import serve
from polyrhythm.tools.cli.simulate import simulate
from polyrhythm.tools.cli.study import study
from polyrhythm.tools.cli.systems import systems
from polyrhythm.tools.cli.trace import trace
from polyrhythm.tools.cli.usage import OneSentence
from polyrhythm.tools.cli.workloads import workloads

app = typer.Typer(
    name="polyrhythm",
    cls=OneSentence,
    help="Train one PyTorch model on many workers, synchronously or asynchronously: on real processes, or in virtual time.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_COMMANDS = (
    systems,
    plan,
    layouts,
    cost,
    run,
    join,
    launch,
    check,
    compare,
    study,
    scaling,
    report,
    diagnose,
    trace,
    export,
    networks,
    devices,
    workloads,
    calibrate,
)

for command in _COMMANDS:
    app.command(cls=StrictCommand)(command)
for installed in entry_points(group="polyrhythm.commands"):  # verbs of other distributions: `reproduce` is one
    app.command(installed.name, cls=StrictCommand)(installed.load())
app.add_typer(cluster, name="cluster")
# what follows a command of the user's is its own, also where it looks like an option of ours
for command in (lab, simulate):
    app.command(context_settings={"allow_interspersed_args": False})(command)
app.add_typer(serve)


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
