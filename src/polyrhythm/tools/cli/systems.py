"""`polyrhythm systems`: every published system, or one of them in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from polyrhythm.tools.cli.failures import guarded
from polyrhythm.tools.cli.options import Json

if TYPE_CHECKING:
    from polyrhythm.tools.cli.presets import Published

Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="Show this system in full: its pieces, options and paper.")]


@guarded
def systems(name: Name = None, as_json: Json = False) -> None:
    """List the published systems: what each is composed of, its options, its paper."""
    from polyrhythm.systems import SYSTEMS
    from polyrhythm.tools.cli.output import print_json
    from polyrhythm.tools.cli.presets import published

    if name is not None:
        shown = published(name)
        print_json(shown) if as_json else _print_one(shown)
        return
    every = [published(each) for each in SYSTEMS]
    print_json(every) if as_json else _print_all(every)


def _print_all(every: list[Published]) -> None:
    from rich.table import Table

    from polyrhythm.tools.cli.output import console

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("system", "consistency", "topology", "codec", "merge", "options", "paper", "reproduction"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "system")
    for each in every:
        options = "\n".join(f"{key}={option.default}" for key, option in each.options.items())
        table.add_row(each.name, each.consistency, each.topology, each.codec, each.merge, options, each.paper or "", each.reproduction)
    console().print(table)


def _print_one(shown: Published) -> None:
    from polyrhythm.tools.cli.output import console
    from polyrhythm.tools.cli.presets import AXES

    out = console()
    out.print(shown.name, style="bold")
    out.print(f"\n{shown.description}\n")
    for axis in AXES:
        out.print(f"  {axis:<12} {getattr(shown, axis)}")
    out.print(f"  {'claims':<12} {shown.reproduction}")
    continues = shown.lost_worker == "the others continue"
    out.print(f"  {'lost worker':<12} {shown.lost_worker}{', but not under torchrun, which ends all of them' if continues else ''}")
    if shown.exchanges:
        out.print(f"  {'exchanges':<12} {shown.exchanges}")
    out.print("\nIn a crew that changes")
    for event in ("lost_worker", "lost_first_worker", "lost_server", "joining_worker", "redone"):
        out.print(f"  {event.replace('_', ' '):<18} {getattr(shown.crew, event)}")
    for loss in shown.crew.may_be_lost or ("nothing",):
        out.print(f"  {'may be lost':<18} {loss}")
    out.print("\nOptions" if shown.options else "\nNo options.")
    for key, option in shown.options.items():
        also = f"; also {', '.join(option.also)}" if option.also else ""
        out.print(f"  --option {key}={option.default}   ({option.type}{also})")
