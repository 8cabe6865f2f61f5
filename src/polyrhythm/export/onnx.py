"""ONNX: the open form of models (onnx.ai), which onnxruntime runs on phones, boards, servers and in browsers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from polyrhythm.core.extras import needed
from polyrhythm.errors import ExportError
from polyrhythm.export.compact import compact
from polyrhythm.export.precision import FullPrecision, Precision
from polyrhythm.export.predictor import Predictor
from polyrhythm.export.program import ModelProgram, quiet, reason

FILE = "model.onnx"
OPSET = 20
"""The version of the operators: the newest that torch's exporter writes by itself, and onnxruntime-web runs."""
_MISSING = re.compile(r"No (?:ONNX function|decompositions registered)[^<]*<OpOverload\(op='([^']+)'")


@dataclass(frozen=True, slots=True)
class Onnx:
    """One file, model.onnx, by torch's exporter (torch.onnx with dynamo). `precision` is that of weights and arithmetic.

    Examples:
        >>> Onnx()
        Onnx(precision=FullPrecision())
    """

    precision: Precision = field(default_factory=FullPrecision)

    name: ClassVar[str] = "onnx"
    opener: ClassVar[Path] = Path(__file__).with_name("openers") / "open_onnx.py"

    @property
    def exact(self) -> bool:
        """True without quantisation."""
        return self.precision.exact

    def check(self) -> None:
        """Raise CompositionError where the extra is not installed."""
        for module in ("onnx", "onnxruntime", "onnxscript"):
            needed(module, "export")

    def write(self, program: ModelProgram, folder: Path) -> Path:
        """Write model.onnx. Raises ExportError for a model that has operators which ONNX does not have."""
        self.check()
        exported = converted(program)
        path = folder / FILE
        self.precision.write(exported, path, program)
        return path

    def outputs(self, file: Path, program: ModelProgram, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The outputs by onnxruntime."""
        predictor = Predictor(file)
        for name, tensor in zip(program.inputs, inputs, strict=True):
            predictor.set_input(name, tensor)
        predictor.forward()
        return tuple(torch.from_numpy(predictor.get_output(name)) for name in program.outputs)


def converted(program: ModelProgram) -> Any:
    """The program as an ONNX ModelProto. Raises ExportError for what ONNX does not have."""
    graph = program.exported()
    try:
        with quiet():
            made = torch.onnx.export(
                graph,
                dynamo=True,
                opset_version=OPSET,
                input_names=list(program.inputs),
                output_names=list(program.outputs),
                optimize=True,
                verbose=False,
            )
    except Exception as problem:  # of any of the exporter's stages
        raise _refusal(program, problem) from problem
    assert made is not None
    return compact(made.model_proto, dict(zip(program.inputs, program.varying, strict=True)))


def _refusal(program: ModelProgram, problem: Exception) -> ExportError:
    texts = [str(problem), *(str(each) for each in (problem.__cause__, problem.__context__) if each is not None)]
    missing = next((found[1] for text in texts if (found := _MISSING.search(text))), None)
    model = type(program.model).__name__
    if missing is not None:
        return ExportError(
            f"{model} uses {missing}, which ONNX has no operator for: write that part with other operators of torch, or let it compute "
            "outside of the model that leaves."
        )
    return ExportError(f"{model} cannot be written as ONNX: {reason(problem.__cause__ or problem)}. Write that part with other operators.")  # type: ignore[arg-type]
