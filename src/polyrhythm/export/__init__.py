"""Models that leave: files for other runtimes, on edge devices and in browsers, and the calls that predict with them.

    report = pr.export.write_model(model, torch.zeros(1, 1, 8, 8), "digits", to=pr.export.Onnx())
    predictor = pr.Predictor("digits")

Names are imported when they are first used: a machine that only predicts does not load torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from polyrhythm.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from polyrhythm.export.budget import DeviceBudget as DeviceBudget
    from polyrhythm.export.captured import TrainedModel as TrainedModel
    from polyrhythm.export.captured import model_of as model_of
    from polyrhythm.export.executorch import ExecuTorch as ExecuTorch
    from polyrhythm.export.export_report import ExportReport as ExportReport
    from polyrhythm.export.export_report import TensorShape as TensorShape
    from polyrhythm.export.onnx import Onnx as Onnx
    from polyrhythm.export.page import ContinuedText as ContinuedText
    from polyrhythm.export.page import DrawnImages as DrawnImages
    from polyrhythm.export.page import Page as Page
    from polyrhythm.export.precision import DynamicInt8 as DynamicInt8
    from polyrhythm.export.precision import FullPrecision as FullPrecision
    from polyrhythm.export.precision import StaticInt8 as StaticInt8
    from polyrhythm.export.program import ModelProgram as ModelProgram
    from polyrhythm.export.program import program_of as program_of
    from polyrhythm.export.recorded_run import trained_model as trained_model
    from polyrhythm.export.writing import ExportLimits as ExportLimits
    from polyrhythm.export.writing import write_model as write_model

_PLACES = {
    "budget": "DeviceBudget",
    "captured": "TrainedModel model_of",
    "executorch": "ExecuTorch",
    "export_report": "ExportReport TensorShape",
    "onnx": "Onnx",
    "page": "ContinuedText DrawnImages Page",
    "precision": "DynamicInt8 FullPrecision StaticInt8",
    "program": "ModelProgram program_of",
    "recorded_run": "trained_model",
    "writing": "ExportLimits write_model",
}
_HOMES = {name: f"polyrhythm.export.{place}" for place, names in _PLACES.items() for name in names.split()}

__all__ = sorted(_HOMES)


__getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return __all__
