"""The arguments and options that commands share. Each is an annotation of a parameter of a command, which Typer reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from polyrhythm.core.kernel.crew import Crew
from polyrhythm.errors import CompositionError
from polyrhythm.tools.cli.complete import (
    complete_devices,
    complete_jobs,
    complete_networks,
    complete_options,
    complete_runtimes,
    complete_systems,
)

Job = Annotated[
    str,
    typer.Argument(
        metavar="JOB",
        help="train.py with train(worker), train.py:function, package.module:function, or a bundled workload such as digits-cnn.",
        autocompletion=complete_jobs,
    ),
]
Arguments = Annotated[list[str] | None, typer.Argument(metavar="[-- ARGUMENT ...]", help="Arguments for JOB, in its sys.argv.")]


def number_of_workers(text: object) -> int:
    """The number that `--workers` means. Raises typer.BadParameter for other text, or several."""
    return crew_typed(text, fixed=True).most


def crew_typed(text: object, fixed: bool = False) -> Crew:
    """The workers that `--workers` means. Raises typer.BadParameter for other text, or if they change and must be `fixed`."""
    try:
        crew = Crew.parse(str(text))
        return Crew.of(crew.number("This command")) if fixed else crew
    except CompositionError as problem:
        raise typer.BadParameter(str(problem)) from None


def numbers_of_workers(text: object) -> tuple[int, ...]:
    """The numbers, with commas between. Raises typer.BadParameter for other text."""
    return tuple(dict.fromkeys(number_of_workers(each.strip()) for each in str(text).split(",")))


Several = Annotated[
    Any,
    typer.Option(
        "--workers",
        metavar="N|A,B,C",
        parser=numbers_of_workers,
        help="How many workers train together, or several such numbers; default 2, of a script its own.",
    ),
]
Workers = Annotated[int, typer.Option("--workers", metavar="N", parser=number_of_workers, help="How many workers train together.")]
MaybeChanging = Annotated[
    Crew | None,
    typer.Option("--workers", metavar="A..B", parser=crew_typed, help="How many workers there may be, if they join and leave meanwhile."),
]
On = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="RUNTIME",
        help="processes (real), simulator (virtual time), or an engine: ray, spark, slurm, kubernetes, mpi, torchrun; default: "
        "simulator with --network or a simulated device, otherwise processes.",
        autocompletion=complete_runtimes,
    ),
]
NetworkName = Annotated[
    str | None,
    typer.Option(
        "--network",
        metavar="NAME|PATH",
        help="Simulator: a preset, a JSON file, or a directory written by calibrate; default lan.",
        autocompletion=complete_networks,
    ),
]
DeviceName = Annotated[
    str | None,
    typer.Option(
        "--device",
        "--devices",
        metavar="NAME|PATH",
        help="Simulator: a preset such as a100, a JSON file, or a directory written by calibrate. Processes: cpu or cuda.",
        autocompletion=complete_devices,
    ),
]
Machines = Annotated[
    str | None,
    typer.Option(
        "--machines",
        metavar="A,B,C/N",
        help="Simulator: only these of N machines, counted from 0, in this order; a worker on each.",
    ),
]
Shares = Annotated[
    str | None,
    typer.Option(
        "--shares",
        metavar="A,B,C",
        help="The workers' parts of the samples of each step, such as their speeds: 3,2,1; by default all have as many.",
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        help="Not in virtual time: stop the run after waiting this long for a worker that makes no progress.",
    ),
]
Engine = Annotated[
    list[str] | None, typer.Option("--engine", metavar="KEY=VALUE", help="An option of the engine, such as restarts=5; may be repeated.")
]
Fault = Annotated[
    list[str] | None,
    typer.Option(
        "--fault",
        metavar="FAULT",
        help="What happens to the run, such as 'crash worker/1 step 20' or 'stall first at 3 for 2'; may be repeated.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="S", help="The root of every random stream.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting of the JOB, such as epochs=5; may be repeated.")
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="KEY=VALUE",
        help="An option of the system, such as slack=5; may be repeated.",
        autocompletion=complete_options,
    ),
]


def path_given(text: str) -> Path:
    """The path that an option was given. Raises typer.BadParameter for an empty one, which would be the current directory."""
    if not text:
        raise typer.BadParameter("it is empty: give a path; . is the current directory.")
    return Path(text)


def positive(text: object) -> float:
    """The number that an option was given. Raises typer.BadParameter for none above zero."""
    try:
        number = float(str(text))
    except ValueError:
        number = 0.0
    if not 0.0 < number < float("inf"):
        raise typer.BadParameter(f"{text} is no number above zero: give one, such as 2.5.")
    return number


Fast = Annotated[
    bool,
    typer.Option(
        "--fast", help="Simulator: compute gradients of several workers at once, on all cores; weights are equal within rounding."
    ),
]
Faults = Annotated[Path | None, typer.Option("--faults", metavar="PATH", parser=path_given, help="A file with a fault in each line.")]
Checkpoint = Annotated[
    Path | None,
    typer.Option("--checkpoint", metavar="DIR", parser=path_given, help="Where to write checkpoints, and from where --resume continues."),
]


def _steps(text: str) -> int | str:
    """The value of `--every`. Raises typer.BadParameter for what is no number of steps."""
    if text == "auto":
        return text
    if not text.isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"{text} is no number of steps: give 1 or more, or auto.")
    return int(text)


Every = Annotated[
    Any,
    typer.Option(
        "--every",
        metavar="STEPS|auto",
        parser=_steps,
        help="Write a checkpoint after every STEPS steps of each worker; auto: as often as measured costs are worth it.",
    ),
]
Mtbf = Annotated[
    float | None, typer.Option("--mtbf", metavar="HOURS", help="With --every auto: the mean time between failures of the run.")
]
Keep = Annotated[int, typer.Option("--keep", metavar="N", min=1, help="How many of the latest checkpoints to keep.")]
Grace = Annotated[
    float,
    typer.Option("--grace", metavar="SECONDS", help="How long SIGTERM and SIGHUP wait for a last checkpoint; 0 writes none."),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Continue from the newest checkpoint in --checkpoint; from the beginning if there is none yet.")
]
Override = Annotated[
    list[str] | None,
    typer.Option(
        "--override", metavar="NAME", help="Resume with this run's own NAME: lr or another option, data, a variable; may be repeated."
    ),
]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", parser=path_given, help="Write the record of the run to this directory.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
System = Annotated[
    str,
    typer.Option("--system", metavar="NAME", help="A published system; `polyrhythm systems` lists them.", autocompletion=complete_systems),
]


def repeated(flag: str, values: Sequence[str] | None) -> list[str]:
    """The arguments of an option that was given several times."""
    return [part for value in values or [] for part in (flag, value)]
