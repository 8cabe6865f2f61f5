"""`polyrhythm export`: the model of a run that has ended, for other runtimes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from polyrhythm.tools.cli.complete import complete_devices
from polyrhythm.tools.cli.failures import guarded, notice
from polyrhythm.tools.cli.groups import grouped
from polyrhythm.tools.cli.options import Json, Settings, path_given

if TYPE_CHECKING:
    from polyrhythm.export.export_report import ExportReport

RunDirectory = Annotated[
    Path, typer.Argument(metavar="RUN", parser=path_given, help="A directory that run --out, Run.save or --checkpoint wrote.")
]
To = Annotated[str, typer.Option("--to", metavar="onnx|executorch|page", help="The runtime that the model is for; page: a browser.")]
Int8 = Annotated[
    str | None,
    typer.Option("--int8", metavar="static|dynamic", help="Quantise to 8 bits: with ranges of the JOB's own data, or at every call."),
]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", parser=path_given, help="Where to write; default RUN/onnx, RUN/page …")]
FromJob = Annotated[str | None, typer.Option("--job", metavar="JOB", help="The JOB of the run, where its record does not name it.")]
ModelName = Annotated[str | None, typer.Option("--model", metavar="NAME", help="Which model, if the JOB attaches several.")]
Budget = Annotated[
    str | None,
    typer.Option("--budget", metavar="size=2MB,latency=10ms,memory=50MB", help="Refuse a model that takes more than this."),
]
ForDevice = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="NAME|PATH",
        help="Count the latency of this device, by its speed, in place of what is measured here.",
        autocompletion=complete_devices,
    ),
]


@dataclass(frozen=True, slots=True)
class ExportOrigin:
    """Whose model it is."""

    job: FromJob = None
    settings: Settings = None
    model: ModelName = None


@dataclass(frozen=True, slots=True)
class ExportForm:
    """The form that it gets, and what it may take there."""

    to: To = "onnx"
    int8: Int8 = None
    budget: Budget = None
    device: ForDevice = None


@guarded
@grouped
def export(run: RunDirectory, *, origin: ExportOrigin, form: ExportForm, out: Out = None, as_json: Json = False) -> None:
    """Write the model of a run for a phone, a board or a browser, with a report of what it takes there."""
    from polyrhythm.export.budget import DeviceBudget
    from polyrhythm.export.recorded_run import recorded_job, trained_model
    from polyrhythm.export.writing import ExportLimits
    from polyrhythm.hardware import devices
    from polyrhythm.tools.cli.export_options import precision, target, written
    from polyrhythm.tools.cli.output import reserved
    from polyrhythm.tools.cli.pairs import pairs

    settings = pairs(origin.settings or [], "--set")
    budget = DeviceBudget() if form.budget is None else DeviceBudget.parse(form.budget)
    limits = ExportLimits(budget, None if form.device is None else devices.load(form.device))
    folder = out or run / form.to
    with reserved(True):  # what the JOB prints while it is looked at
        made_by = recorded_job(run, origin.job, settings)
        trained = trained_model(run, job=origin.job, settings=settings, model=origin.model)
        to = target(form.to, made_by.job, precision(form.int8, trained))
        report = written(trained, to, folder, limits)
    show(report, folder, as_json)


def show(report: ExportReport, folder: Path, as_json: bool = False) -> None:
    """Print what was written, and what to do with it."""
    from polyrhythm.tools.cli.output import print_json, print_rows

    if as_json:
        print_json(report)
    else:
        print_rows(("written", str(folder)), report.rows())
    if report.target == "page":
        notice(
            f"python -m http.server --directory {quote(str(folder))} 8000 offers the page as http://localhost:8000, and to a phone in the "
            "same network under this machine's address"
        )
