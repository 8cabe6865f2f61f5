"""`polyrhythm simulate`: a script of torch.distributed, unchanged, on a simulated cluster."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from polyrhythm.tools.cli.failures import exit_code, guarded, notice, show_error
from polyrhythm.tools.cli.groups import PrintOptions, grouped
from polyrhythm.tools.cli.options import DeviceName, Fault, Faults, NetworkName, Out, Seed, Workers

if TYPE_CHECKING:
    from polyrhythm.core.records.outcome import Outcome

Command = Annotated[list[str], typer.Argument(metavar="[--] SCRIPT [ARGUMENT ...]", help="The script and its arguments.")]
Timeline = Annotated[bool, typer.Option("--timeline", help="Record every message too, for `polyrhythm trace` and `diagnose`.")]


_LINES = 12


@guarded
@grouped
def simulate(
    command: Command,
    workers: Workers = 2,
    network: NetworkName = None,
    device: DeviceName = None,
    fault: Fault = None,
    faults: Faults = None,
    seed: Seed = 0,
    out: Out = None,
    timeline: Timeline = False,
    *,
    shown: PrintOptions,
) -> None:
    """Run a script that calls torch.distributed.init_process_group on a simulated cluster: real values, virtual time.

    The script is what torchrun would start, and need not know of Polyrhythm: DistributedDataParallel, FSDP2, DTensor, pipelines, its
    own collectives. Each of the --workers is one rank, on a host of its own.
    """
    from polyrhythm.core.records.progress import progress
    from polyrhythm.core.simulator import Simulator
    from polyrhythm.tools.cli.faults import faults as read_faults
    from polyrhythm.tools.cli.output import print_json, print_outcomes, reserved
    from polyrhythm.tools.cli.prepare import directory
    from polyrhythm.tools.cli.record import COMPARISON
    from polyrhythm.torch_programs.simulate import SYSTEM, attempt_program, main_of

    on = Simulator(network=network or "lan", devices=device or "cpu-core", seed=seed, faults=read_faults(fault or (), faults))
    main, kept = main_of(command[0], tuple(command[1:])), directory(out, COMPARISON)
    with reserved(shown.as_json), progress(1, shown.watched) as begin:
        tried = attempt_program(main, workers, on, kept, begin(SYSTEM), timeline)
    for trouble in tried.troubles:
        notice(trouble)
    if shown.as_json:
        print_json(tried.outcome.summary)
    if tried.error is not None:
        show_error(tried.error)
        raise typer.Exit(exit_code(tried.error))
    if not shown.as_json:
        print_outcomes([tried.outcome])
        _show_communication(tried.outcome)
    if kept is not None:
        notice(f"the record of the run is in {kept}; `polyrhythm report {quote(str(kept))}` draws it")


def _show_communication(outcome: Outcome) -> None:
    """Print what each rank communicated, by mesh axis and line."""
    from rich.table import Table

    from polyrhythm.tools.cli.output import console
    from polyrhythm.tools.report.communication import communication_table
    from polyrhythm.tools.report.series import series_of

    found = communication_table(series_of([outcome])[0], _LINES)
    if not found.rows:
        return
    shown = Table(*found.columns, box=None, pad_edge=False, header_style="bold")
    for row in found.rows:
        shown.add_row(*row)
    out = console()
    out.print()
    out.print("For each rank, what it waited for longest first:")
    out.print(shown)
    if found.remark:
        out.print(found.remark)
