"""The protocol of targets: the runtimes, outside of torch, for which a model is written."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from torch import Tensor

from polyrhythm.export.program import ModelProgram


class ExportTarget(Protocol):
    """A form in which a model leaves: settings, and the writing of the files."""

    @property
    def name(self) -> str:
        """Its name in reports and on the command line."""

    @property
    def exact(self) -> bool:
        """True if the outputs are those of torch up to rounding."""

    @property
    def opener(self) -> Path:
        """The script whose `open_model(file)` opens a written model where there is no torch; it is timed and weighed there."""

    def check(self) -> None:
        """Raise PolyrhythmErrors where something that it needs is not installed."""

    def write(self, program: ModelProgram, folder: Path) -> Path:
        """Write `program` into `folder`, and return the file of the model. Raises ExportError for what the runtime does not have."""

    def outputs(self, file: Path, program: ModelProgram, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The outputs of the model in `file` for `inputs`, by its own runtime on this machine."""
