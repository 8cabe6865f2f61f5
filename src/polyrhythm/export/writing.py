"""Writes a model for another runtime, compares it with torch, times it, and keeps it if it is within its budget."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp

import msgspec
import torch
from torch import Tensor, nn

from polyrhythm.core.records.directory import path_of
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError, ExportError
from polyrhythm.export.budget import DeviceBudget
from polyrhythm.export.export_report import ExportReport, TensorShape
from polyrhythm.export.onnx import Onnx
from polyrhythm.export.program import ModelProgram, program_of
from polyrhythm.export.target import ExportTarget
from polyrhythm.export.weighed import Weighed, weighed
from polyrhythm.hardware.devices import Machine

REPORT = "report.json"
_FAR = 1e-3
"""Relative to the largest output: a file that is further from torch is wrong, and not rounded."""


@dataclass(frozen=True, slots=True)
@checked
class ExportLimits:
    """What is measured and must hold: the `budget`, the `device` that it is for, if not this machine, and the timed `runs`."""

    budget: DeviceBudget = field(default_factory=DeviceBudget)
    device: Machine | None = None
    runs: int = 200

    def __post_init__(self) -> None:
        if self.runs < 1:
            raise CompositionError(f"ExportLimits(runs={self.runs}) times nothing: give 1 or more.")
        if self.device is not None and (self.device.measured or self.device.segmented):
            raise CompositionError(
                f"The device {self.device.name} has measured steps of training, which say nothing of one sample: give one with a speed, "
                "such as raspberry-pi-4."
            )


def write_model(
    model: nn.Module | ModelProgram,
    example: Tensor | tuple[Tensor, ...] = (),
    folder: str | Path = ".",
    *,
    to: ExportTarget | None = None,
    limits: ExportLimits | None = None,
) -> ExportReport:
    """Write `model` into `folder`, which is made if it is missing, for the runtime `to` (`Onnx()` by default), and return the report.

    `example` is a tensor or a tuple of them, as a forward pass takes them; the first dimension counts samples, of which the written model
    takes any number. A `ModelProgram` in place of the model says which other dimensions vary, and has names. The folder holds the model and
    report.json. Raises ExportError for a model that cannot be written, whose file computes something else, or that is over the budget of
    `limits`: then nothing is left.
    """
    target, wanted = to or Onnx(), limits or ExportLimits()
    program = model if isinstance(model, ModelProgram) else program_of(model, example)
    return into(path_of(folder), lambda fresh: _written(program, fresh, target, wanted))


def into(folder: Path, write: Callable[[Path], ExportReport]) -> ExportReport:
    """Let `write` fill a folder of its own, and move what it wrote to `folder` if it ends well."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fresh = Path(mkdtemp(prefix=".export-", dir=folder))
    except OSError as problem:
        raise ExportError(f"Nothing can be written into {folder}: {problem.strerror}. Give another folder.") from None
    try:
        report = write(fresh)
        for path in sorted(fresh.iterdir()):
            if (folder / path.name).is_dir():
                shutil.rmtree(folder / path.name)
            os.replace(path, folder / path.name)
    except OSError as problem:
        raise ExportError(f"The model cannot be written into {folder}: {problem.strerror or problem}. Give another folder.") from problem
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return report


def _written(program: ModelProgram, folder: Path, target: ExportTarget, limits: ExportLimits) -> ExportReport:
    """Write the model and its report into `folder`."""
    file = target.write(program, folder)
    difference, agreement = _compared(program, file, target)
    report = _report(program, file, target, weighed(file, program, target, limits.runs))
    report = msgspec.structs.replace(report, difference=difference, agreement=agreement)
    if limits.device is not None:
        report = msgspec.structs.replace(report, device=limits.device.name, device_seconds=limits.device.step_seconds(report.flops, 0))
    if limits.budget != DeviceBudget():
        limits.budget.check(report)
        report = msgspec.structs.replace(report, budget=str(limits.budget))
    (folder / REPORT).write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
    return report


def _compared(program: ModelProgram, file: Path, target: ExportTarget) -> tuple[float, float]:
    """The largest difference from torch, and the share of rows that agree. Raises ExportError where an exact target is far off."""
    far, agreement = 0.0, 1.0
    for inputs in (program.single, program.example):  # one sample and several: the batch may have any size
        expected, found = program(*inputs), target.outputs(file, program, inputs)
        for name, mine, theirs in zip(program.outputs, expected, found, strict=True):
            difference = _difference(name, mine, theirs)
            largest = 1.0 if mine.dtype == torch.bool else _magnitude(mine)
            if target.exact and not difference <= _FAR * largest:
                raise ExportError(
                    f"The written model's {name} differs from torch's by {difference:.3g}, where the largest is {largest:.3g}: {_REPORT_IT}"
                )
            far = max(far, difference)
        agreement = _agreement(expected[0], found[0])
    return far, agreement


def _difference(name: str, mine: Tensor, theirs: Tensor) -> float:
    """The largest difference of finite values. Raises ExportError for another shape, and for NaN or infinity at other places."""
    if mine.shape != theirs.shape:
        raise ExportError(f"The written model's {name} has the shape {tuple(theirs.shape)}, torch's {tuple(mine.shape)}: {_REPORT_IT}")
    if mine.dtype == torch.bool:
        return 0.0
    ours, written = mine.double(), theirs.double()
    odd = ~(ours.isfinite() & written.isfinite())
    if not torch.allclose(ours[odd], written[odd], rtol=0.0, atol=0.0, equal_nan=True):
        raise ExportError(f"The written model's {name} has NaN or infinity where torch's has another value: {_REPORT_IT}")
    apart = (ours - written)[~odd].abs()
    return apart.max().item() if apart.numel() else 0.0


def _magnitude(values: Tensor) -> float:
    """The largest finite value, or 1 where all are smaller."""
    finite = values.double()[values.isfinite()].abs()
    return max(1.0, finite.max().item()) if finite.numel() else 1.0


_REPORT_IT = "the exporter has misread the model. Write the part that differs in other operators, and report it."


def _agreement(expected: Tensor, found: Tensor) -> float:
    if expected.ndim < 2 or expected.shape[-1] < 2 or not expected.numel():
        return 1.0
    return (expected.argmax(-1) == found.argmax(-1)).double().mean().item()


def _report(program: ModelProgram, file: Path, target: ExportTarget, times: Weighed) -> ExportReport:
    inputs = [
        TensorShape(name, str(each.dtype).removeprefix("torch."), [names.get(place, size) for place, size in enumerate(each.shape)])
        for name, each, names in zip(program.inputs, program.example, program.varying, strict=True)
    ]
    return ExportReport(
        file=file.name,
        target=target.name,
        inputs=inputs,
        outputs=list(program.outputs),
        parameters=program.parameters,
        flops=program.flops,
        nbytes=file.stat().st_size,
        difference=0.0,
        agreement=1.0,
        runs=times.runs,
        median_seconds=times.median_seconds,
        p99_seconds=times.p99_seconds,
        memory=times.memory,
    )
