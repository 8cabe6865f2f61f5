"""The precision of a model that leaves: as it was trained, or weights and arithmetic in 8 bits (Jacob et al., 2018)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from polyrhythm.core.extras import needed
from polyrhythm.errors import ExportError
from polyrhythm.export.compact import compact
from polyrhythm.export.program import ModelProgram, quiet, reason

_BATCH = 16
_FEWEST = 8


class Precision(Protocol):
    """Writes an ONNX model in a precision."""

    @property
    def exact(self) -> bool:
        """True if values are those of the model up to rounding."""

    def write(self, model: Any, path: Path, program: ModelProgram) -> None:
        """Write the ModelProto `model` of `program` to `path`."""


@dataclass(frozen=True, slots=True)
class FullPrecision:
    """As the model was trained."""

    exact: ClassVar[bool] = True

    def write(self, model: Any, path: Path, program: ModelProgram) -> None:
        """Write the model as it is."""
        needed("onnx", "export").save(model, path)


@dataclass(frozen=True, slots=True)
class DynamicInt8:
    """Weights of 8 bits; the range of what a layer computes with is found at every call. Needs no data.

    Works for networks of any kind, recurrent ones too, and suits transformers; convolutions are slower than with `StaticInt8`.
    """

    exact: ClassVar[bool] = False

    def write(self, model: Any, path: Path, program: ModelProgram) -> None:
        """Write the quantised model. Raises ExportError where onnxruntime's quantiser fails."""
        quantization = needed("onnxruntime.quantization", "export")

        def quantize(prepared: Path, to: Path) -> None:
            quantization.quantize_dynamic(prepared, to, weight_type=quantization.QuantType.QInt8)

        _quantized(model, path, program, quantize)


@dataclass(frozen=True, slots=True)
class StaticInt8:
    """Weights and activations of 8 bits, with ranges that `samples` of the data have shown: smallest and fastest for convolutions.

    `samples` are inputs of the model as tensors, one for each input, with the samples as first dimension; some hundred are enough.
    """

    samples: tuple[Tensor, ...] = field(repr=False)
    per_channel: bool = False

    exact: ClassVar[bool] = False

    def write(self, model: Any, path: Path, program: ModelProgram) -> None:
        """Write the quantised model. Raises ExportError where onnxruntime's quantiser fails, or the samples do not fit."""
        quantization = needed("onnxruntime.quantization", "export")
        self._check(program)
        signed = quantization.QuantType.QInt8

        def quantize(prepared: Path, to: Path) -> None:
            quantization.quantize_static(
                prepared,
                to,
                _Reader(program.inputs, self.samples),
                quant_format=quantization.QuantFormat.QDQ,
                per_channel=self.per_channel,
                weight_type=signed,
                activation_type=signed,
            )

        _quantized(model, path, program, quantize)

    def _check(self, program: ModelProgram) -> None:
        shapes = [tuple(each.shape[1:]) for each in self.samples]
        wanted = [tuple(each.shape[1:]) for each in program.example]
        if len(shapes) != len(wanted) or shapes != wanted or any(len(each) < _FEWEST for each in self.samples):
            raise ExportError(
                f"StaticInt8 got samples of shapes {[tuple(each.shape) for each in self.samples]} for inputs of shapes {wanted}: give a "
                f"tensor for each input, with at least {_FEWEST} samples, or quantise with DynamicInt8(), which needs none."
            )


class _Reader:
    """The samples in the form in which onnxruntime's calibration asks for them."""

    def __init__(self, names: Sequence[str], samples: Sequence[Tensor]) -> None:
        parts = [torch.split(each, _BATCH) for each in samples]
        self._batches: Iterator[dict[str, Any]] = iter(
            [{name: each.numpy() for name, each in zip(names, batch, strict=True)} for batch in zip(*parts, strict=True)]
        )

    def get_next(self) -> dict[str, Any] | None:
        """The next batch; None after the last."""
        return next(self._batches, None)


def _quantized(model: Any, path: Path, program: ModelProgram, quantize: Any) -> None:
    """Prepare the model as onnxruntime recommends, quantise it, and write it without notes."""
    onnx, shapes = needed("onnx", "export"), needed("onnxruntime.quantization.shape_inference", "export")
    with TemporaryDirectory() as folder:
        plain, prepared, made = (Path(folder) / f"{name}.onnx" for name in ("plain", "prepared", "made"))
        onnx.save(model, plain)
        try:
            with quiet():
                shapes.quant_pre_process(plain, prepared)
                quantize(prepared, made)
        except Exception as problem:  # of the quantiser, which has no errors of its own
            raise ExportError(
                f"{type(program.model).__name__} cannot be quantised: {reason(problem)}. Export it without int8, or with the other kind."
            ) from problem
        onnx.save(compact(onnx.load(made), dict(zip(program.inputs, program.varying, strict=True))), path)
