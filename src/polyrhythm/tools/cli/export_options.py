"""What `polyrhythm export` and `run --export` write: targets by name, their precision, and what they may take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyrhythm.core.units import show_bytes
from polyrhythm.errors import PolyrhythmError, unknown
from polyrhythm.tools.cli.failures import notice, show_error

if TYPE_CHECKING:
    from polyrhythm.core.training.run import Attempt
    from polyrhythm.core.training.work import Train
    from polyrhythm.export.captured import TrainedModel
    from polyrhythm.export.export_report import ExportReport
    from polyrhythm.export.precision import Precision
    from polyrhythm.export.target import ExportTarget
    from polyrhythm.export.writing import ExportLimits

TARGETS = ("onnx", "executorch", "page")
INT8 = ("static", "dynamic")

ExportTo = Annotated[
    str | None,
    typer.Option("--export", metavar="onnx|executorch|page", help="Write the trained model for another runtime too, into --out."),
]


def precision(int8: str | None, trained: TrainedModel) -> Precision:
    """The precision that `--int8` names. Raises UnknownNameError for another."""
    from polyrhythm.export.precision import DynamicInt8, FullPrecision, StaticInt8

    made: Mapping[str | None, Callable[[], Precision]] = {
        None: FullPrecision,
        "static": lambda: StaticInt8(trained.samples),
        "dynamic": DynamicInt8,
    }
    if int8 not in made:
        raise unknown("kind of int8", str(int8), INT8)
    return made[int8]()


def target(to: str, job: str, chosen: Precision) -> ExportTarget:
    """The target that `--to` names. Raises UnknownNameError for another, and ExportError for a page of a JOB that has none."""
    from polyrhythm.errors import ExportError
    from polyrhythm.export.executorch import ExecuTorch
    from polyrhythm.export.job_pages import page_of
    from polyrhythm.export.onnx import Onnx

    if to not in TARGETS:
        raise unknown("target of an export", to, TARGETS)
    if to == "executorch" and not chosen.exact:
        raise ExportError("--int8 is for --to onnx and page: leave it out for executorch, whose models are written in float32.")
    made: Mapping[str, Callable[[], ExportTarget]] = {
        "onnx": lambda: Onnx(chosen),
        "executorch": ExecuTorch,
        "page": lambda: page_of(job, chosen),
    }
    return made[to]()


def written(trained: TrainedModel, to: ExportTarget, folder: Path, limits: ExportLimits | None = None) -> ExportReport:
    """Write the model, and return its report."""
    from polyrhythm.export.writing import write_model

    return write_model(trained.model, trained.samples, folder, to=to, limits=limits)


def before_run(to: str, job: str, out: Path | None) -> ExportTarget:
    """The target of `--export`. Raises PolyrhythmErrors for what could not be written once the run has ended."""
    from polyrhythm.errors import CompositionError
    from polyrhythm.export.precision import FullPrecision

    made = target(to, job, FullPrecision())
    if out is None:
        raise CompositionError(f"--export {to} is written beside the record of the run: give --out DIR.")
    made.check()
    return made


def after_run(attempt: Attempt, to: ExportTarget | None, train: Train, kept: Path | None) -> Callable[[int], int]:
    """Write the model of a run that has ended well into its record `kept`.

    Returns what prints that, and gives the command's exit code from the run's own.
    """
    from polyrhythm.export.captured import model_of

    if to is None or kept is None or attempt.error is not None:
        return lambda status: status
    folder = kept / to.name
    try:
        report = written(model_of(train, attempt.outcome.weights), to, folder)
    except PolyrhythmError as problem:
        return partial(_failed, problem)
    return partial(_told, f"the model is in {folder}: {show_bytes(report.nbytes)}; report.json there has what it takes")


def _failed(problem: PolyrhythmError, status: int) -> int:
    """The run itself is kept."""
    show_error(problem)
    return status or 1


def _told(text: str, status: int) -> int:
    notice(text)
    return status
