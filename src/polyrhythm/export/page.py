"""Pages: a folder with a model, a page that uses it in a browser, and onnxruntime-web, so that any file server can offer it to phones.

A `Page` is the target; what one sees on it is its content: `DrawnImages`, or `ContinuedText`.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import msgspec
from torch import Tensor

from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError, ExportError
from polyrhythm.export.onnx import Onnx
from polyrhythm.export.precision import FullPrecision, Precision
from polyrhythm.export.program import ModelProgram
from polyrhythm.export.web_runtime import FILES, web_runtime

_PAGES = Path(__file__).with_name("pages")
_SHARED = ("style.css", "runtime.js")


class PageContent(Protocol):
    """What a page does with a model: its own files lie in the folder `pages/FOLDER`."""

    folder: ClassVar[str]

    def settings(self, program: ModelProgram) -> Mapping[str, Any]:
        """What the page must know, as JSON. Raises ExportError for a model that it does not show."""


@dataclass(frozen=True, slots=True)
@checked
class DrawnImages:
    """One draws, and a network says what it is: a model of (batch, 1, height, width) grey values to scores of `labels`.

    The model's inputs are (value - `mean`) / `deviation` of values from 0, the paper, to `most`, the ink. What is drawn is scaled to the
    height of the image, in its middle, with the ink that `mean` says, as the digits of Alpaydin and Kaynak (1998) are.
    """

    mean: float
    deviation: float
    most: float = 255.0
    labels: tuple[str, ...] = tuple("0123456789")

    folder: ClassVar[str] = "drawing"

    def __post_init__(self) -> None:
        if not (0 < self.mean < self.most and self.deviation > 0):
            raise CompositionError(
                f"DrawnImages(mean={self.mean}, deviation={self.deviation}, most={self.most}) describes no pixels: give the mean and the "
                "deviation of the training images, and the value of full ink."
            )

    def settings(self, program: ModelProgram) -> Mapping[str, Any]:
        """Labels, sizes and pixels. Raises ExportError for a model that takes no such image, or gives other scores."""
        shape, scores = program.example[0].shape, program(*program.example)[0].shape
        if len(program.inputs) != 1 or len(shape) != 4 or shape[1] != 1 or tuple(scores[1:]) != (len(self.labels),):
            raise ExportError(
                f"DrawnImages shows a model of images (batch, 1, height, width) to {len(self.labels)} scores, and this one takes "
                f"{tuple(shape)} and gives {tuple(scores)}: export it as ONNX, for a page of your own."
            )
        pixels = {"mean": self.mean, "deviation": self.deviation, "most": self.most}
        return {"labels": self.labels, "height": shape[2], "width": shape[3], **pixels}


@dataclass(frozen=True, slots=True)
@checked
class ContinuedText:
    """A text is continued: a causal model of (batch, context) numbers of `symbols`, which are bytes, to scores of the next one."""

    symbols: bytes

    folder: ClassVar[str] = "text"

    def settings(self, program: ModelProgram) -> Mapping[str, Any]:
        """Symbols and context. Raises ExportError for a model that takes no such text, or gives other scores."""
        shape, scores = program.example[0].shape, program(*program.example)[0].shape
        if len(program.inputs) != 1 or len(shape) != 2 or tuple(scores[1:]) != (shape[1], len(self.symbols)):
            raise ExportError(
                f"ContinuedText shows a model of (batch, context) symbols to scores of {len(self.symbols)} at each place, and this one "
                f"takes {tuple(shape)} and gives {tuple(scores)}: export it as ONNX, for a page of your own."
            )
        return {"symbols": list(self.symbols), "context": shape[1]}


@dataclass(frozen=True, slots=True)
@checked
class Page:
    """A page of that `content`, with the model as ONNX in that `precision` and onnxruntime-web."""

    content: PageContent
    precision: Precision = field(default_factory=FullPrecision)

    name: ClassVar[str] = "page"
    opener: ClassVar[Path] = Onnx.opener

    @property
    def exact(self) -> bool:
        """True without quantisation."""
        return self.precision.exact

    def check(self) -> None:
        """Raise PolyrhythmErrors where the extra is not installed, or the browser's runtime cannot be fetched."""
        Onnx().check()
        web_runtime()

    def write(self, program: ModelProgram, folder: Path) -> Path:
        """Write the page: its files, the runtime, the settings, and the model. Raises ExportError for a model that it does not show."""
        settings = self.content.settings(program)
        runtime = web_runtime()  # before anything is written: it is what may be missing
        files: Sequence[Path] = [*(_PAGES / name for name in _SHARED), *sorted((_PAGES / self.content.folder).iterdir())]
        for path in files:
            shutil.copyfile(path, folder / path.name)
        (folder / "onnxruntime").mkdir()
        for name in FILES:
            shutil.copyfile(runtime / name, folder / "onnxruntime" / name)
        (folder / "settings.json").write_bytes(msgspec.json.format(msgspec.json.encode(settings), indent=2) + b"\n")
        return Onnx(self.precision).write(program, folder)

    def outputs(self, file: Path, program: ModelProgram, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The outputs by onnxruntime."""
        return Onnx().outputs(file, program, inputs)
