"""`polyrhythm simulate`: a script of torch.distributed, unchanged, on a simulated cluster."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from polyrhythm.errors import PolyrhythmError
from polyrhythm.tools.cli.failures import exit_code, guarded, notice, show_error
from polyrhythm.tools.cli.groups import PrintOptions, grouped
from polyrhythm.tools.cli.options import DeviceName, Fault, Faults, NetworkName, Out, Seed, number_of_workers, path_given

if TYPE_CHECKING:
    from polyrhythm.core.records.outcome import Outcome

Command = Annotated[list[str], typer.Argument(metavar="[--] SCRIPT [ARGUMENT ...]", help="The script and its arguments.")]
Ranks = Annotated[
    int | None,
    typer.Option(
        "--workers", metavar="N", parser=number_of_workers, help="How many ranks run the script; else those that it starts itself."
    ),
]
Measure = Annotated[
    Path | None,
    typer.Option(
        "--measure",
        metavar="FILE",
        parser=path_given,
        help="Charge the CPU seconds that the ranks compute here, and write their medians, for --device FILE of later runs.",
    ),
]
Timeline = Annotated[bool, typer.Option("--timeline", help="Record every message too, for `polyrhythm trace` and `diagnose`.")]
MemoryWanted = Annotated[bool, typer.Option("--memory", help="Count the memory of each rank at its peak, by role and by module.")]

_LINES = 12


@guarded
@grouped
def simulate(
    command: Command,
    workers: Ranks = None,
    network: NetworkName = None,
    device: DeviceName = None,
    fault: Fault = None,
    faults: Faults = None,
    seed: Seed = 0,
    out: Out = None,
    timeline: Timeline = False,
    measure: Measure = None,
    memory: MemoryWanted = False,
    *,
    shown: PrintOptions,
) -> None:
    """Run a script that calls torch.distributed.init_process_group on a simulated cluster: real values, virtual time.

    The script is what torchrun would start, and need not know of Polyrhythm: DistributedDataParallel, FSDP2, DTensor, pipelines, its
    own collectives. Each of the --workers is one rank, on a host of its own. Without --workers the script is called once, and the
    processes that it starts with torch.multiprocessing are the ranks.
    """
    from polyrhythm.core.records.progress import progress
    from polyrhythm.core.simulator import Simulator
    from polyrhythm.tools.cli.faults import faults as read_faults
    from polyrhythm.tools.cli.output import print_json, print_outcomes, reserved
    from polyrhythm.tools.cli.prepare import directory
    from polyrhythm.tools.cli.record import COMPARISON
    from polyrhythm.torch_programs.simulate import NOT_CHARGED, SYSTEM, attempt_program, main_of

    on = Simulator(network=network or "lan", devices=device or "cpu-core", seed=seed, faults=read_faults(fault or (), faults))
    main, kept = main_of(command[0], tuple(command[1:])), directory(out, COMPARISON)
    with reserved(shown.as_json), progress(1, shown.watched) as begin:
        tried = attempt_program(main, workers, on, kept, begin(SYSTEM), timeline, measure=measure, memory=memory)
    for trouble in tried.troubles:
        notice(trouble)
    if remarks := tried.outcome.settings.get(NOT_CHARGED):
        notice(remarks)
    if shown.as_json:
        print_json(tried.outcome.summary)
    if tried.error is not None:
        show_error(tried.error)
        raise typer.Exit(_status(tried.error))
    if not shown.as_json:
        print_outcomes([tried.outcome])
        _show_communication(tried.outcome)
        _show_memory(tried.outcome)
    if measure is not None:
        notice(f"the times of what the ranks compute are in {measure}: --device {quote(str(measure))} charges them")
    if kept is not None:
        notice(f"the record of the run is in {kept}; `polyrhythm report {quote(str(kept))}` draws it")


def _status(error: PolyrhythmError) -> int:
    """The exit code that a rank has chosen, if one has."""
    cause = error.__cause__
    return cause.code if isinstance(cause, SystemExit) and isinstance(cause.code, int) else exit_code(error)


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


def _show_memory(outcome: Outcome) -> None:
    """Print the memory of the rank that held most."""
    from polyrhythm.core.kernel.events import MemoryPeak
    from polyrhythm.core.units import show_bytes
    from polyrhythm.tools.cli.output import console

    held = [event for event in outcome.events if isinstance(event, MemoryPeak)]
    if not held:
        return
    most = max(held, key=lambda event: event.peak)
    out = console()
    out.print()
    out.print(
        f"At its peak {most.actor} held {show_bytes(most.peak)} of tensors, the least of all ranks {show_bytes(min(e.peak for e in held))}:"
    )
    for name, parts in (("by role", most.roles), ("by module", most.modules)):
        out.print(f"  {name}: " + ", ".join(f"{part} {show_bytes(nbytes)}" for part, nbytes in list(parts.items())[:_LINES]))
