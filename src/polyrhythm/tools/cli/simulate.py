"""`polyrhythm simulate`: a script of torch.distributed, unchanged, on a simulated cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING, Annotated

import typer

from polyrhythm.errors import CompositionError, NoRankError, PolyrhythmError
from polyrhythm.tools.cli.complete import complete_systems
from polyrhythm.tools.cli.failures import exit_code, guarded, notice
from polyrhythm.tools.cli.groups import PrintOptions, grouped
from polyrhythm.tools.cli.options import DeviceName, Fault, Faults, NetworkName, Options, Out, Seed, number_of_workers, path_given

if TYPE_CHECKING:
    from polyrhythm.core.records.outcome import Outcome
    from polyrhythm.torch_programs.rank_settings import RankSettings

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
JoinedSystem = Annotated[
    str | None,
    typer.Option(
        "--system",
        metavar="NAME",
        help="The system of pr.join() in the script, where that names none.",
        autocompletion=complete_systems,
    ),
]
StepsWanted = Annotated[int | None, typer.Option("--steps", metavar="N", min=1, help="End each rank after so many steps of its optimizer.")]
PerNode = Annotated[
    int | None,
    typer.Option(
        "--nproc-per-node", metavar="K", min=1, help="LOCAL_RANK and LOCAL_WORLD_SIZE are those of so many ranks a node; default all."
    ),
]
Carrier = Annotated[
    str,
    typer.Option(
        "--carrier", metavar="threads|processes", help="What ranks run in: threads of one process, or processes, which share nothing."
    ),
]
Goal = Annotated[
    str | None,
    typer.Option(
        "--to", metavar="METRIC=VALUE", help="Also show the time to this value of what rank 0 prints or reports, such as loss=0.5."
    ),
]

_LINES = 12


def _settings(system: str | None, options: Sequence[str] | None, metric: str, steps: int | None) -> RankSettings:
    """Those of ranks, with the system of those that join without naming one. Raises CompositionError for options of none."""
    from polyrhythm.tools.cli.pairs import pairs, refuse_without_system
    from polyrhythm.tools.cli.presets import compose
    from polyrhythm.torch_programs.rank_settings import RankSettings

    given = pairs(options or (), "--option")
    if system is None:
        refuse_without_system(given, "--system NAME")
    return RankSettings(None if system is None else compose(system, given), metric, steps)


@guarded
@grouped
def simulate(
    context: typer.Context,
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
    system: JoinedSystem = None,
    options: Options = None,
    steps: StepsWanted = None,
    target: Goal = None,
    per_node: PerNode = None,
    carrier: Carrier = "threads",
    *,
    shown: PrintOptions,
) -> None:
    """Run a script that calls torch.distributed.init_process_group on a simulated cluster: real values, virtual time.

    The script is what torchrun would start, and need not know of Polyrhythm: DistributedDataParallel, FSDP2, DTensor, pipelines, its
    own collectives. Each of the --workers is one rank, on a host of its own. Without --workers the script is called once, and the
    processes that it starts with torch.multiprocessing are the ranks.
    """
    from polyrhythm.core.records.metrics import parse_target
    from polyrhythm.core.records.progress import progress
    from polyrhythm.core.simulator import Simulator
    from polyrhythm.tools.cli.ending import ended
    from polyrhythm.tools.cli.faults import faults as read_faults
    from polyrhythm.tools.cli.output import reserved
    from polyrhythm.torch_programs.program_run import NOT_CHARGED, ProgramRun
    from polyrhythm.torch_programs.simulate import main_of

    goal = None if target is None else parse_target(target)
    settings = _settings(system, options, goal.metric if goal else "", steps)
    on = Simulator(network or "lan", device or "cpu-core", read_faults(fault or (), faults), seed, carrier=carrier)
    kept = _places(out, measure)
    main = main_of(command[0], tuple(command[1:]))
    run = ProgramRun(main, workers, on, settings, timeline, measure=measure, memory=memory, per_node=per_node)
    with reserved(shown.as_json), progress(1, shown.watched) as begin:
        tried = run.attempt(kept, begin(run.system))
    if isinstance(tried.error, NoRankError):
        _refuse_late_options(command, context)
    status = ended(tried, shown.as_json, kept, remarks=(NOT_CHARGED,), further=_show_more, target=goal, code=_status)
    if measure is not None and not status:
        notice(f"the times of what the ranks compute are in {measure}: --device {quote(str(measure))} charges them")
    raise typer.Exit(status)


def _places(out: Path | None, measure: Path | None) -> Path | None:
    """The directory of the record. Raises CompositionError for what cannot be written."""
    from polyrhythm.tools.cli.prepare import directory, refuse_unwritable
    from polyrhythm.tools.cli.record import COMPARISON

    refuse_unwritable(measure, "--measure")
    return directory(out, COMPARISON)


def _refuse_late_options(command: Sequence[str], context: typer.Context) -> None:
    """Raises CompositionError where the arguments of the script have an option of ours, which was to be before it."""
    script, *arguments = command
    ours = {name for parameter in context.command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    late = next((number for number, word in enumerate(arguments) if word.startswith("-") and word.partition("=")[0] in ours), None)
    if late is not None:
        raise CompositionError(
            f"{script} has started no rank, and {arguments[late]} after it is its own argument: options of simulate come before SCRIPT, as "
            f"in polyrhythm simulate {join(arguments[late:])} {join([script, *arguments[:late]])}."
        )


def _show_more(outcome: Outcome) -> None:
    """Print what the table of all runs has not."""
    _show_communication(outcome)
    _show_memory(outcome)


def _status(error: PolyrhythmError) -> int:
    """The exit code that a rank has chosen, if one has."""
    cause = error.__cause__
    return cause.code if isinstance(cause, SystemExit) and isinstance(cause.code, int) else exit_code(error)


def _show_communication(outcome: Outcome) -> None:
    """Print what each rank communicated, by mesh axis and line."""
    from polyrhythm.tools.cli.output import console, print_rows
    from polyrhythm.tools.report.communication import communication_table
    from polyrhythm.tools.report.series import series_of

    found = communication_table(series_of([outcome])[0], _LINES)
    if not found.rows:
        return
    out = console()
    out.print()
    out.print("For each rank, what it waited for longest first:")
    print_rows(found.columns, found.rows)
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
