"""Metrics as TensorBoard's event files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyrhythm.core.extras import needed
from polyrhythm.core.protocols.metrics_logger import RunDescription
from polyrhythm.core.settings import checked


@dataclass(frozen=True, slots=True)
@checked
class TensorBoard:
    """Event files in `directory`, one more for each run: `tensorboard --logdir DIRECTORY` shows them. Needs `polyrhythm[tensorboard]`."""

    directory: str | Path

    def open(self, run: RunDescription) -> TensorBoardWriter:
        """A file that begins with the run's settings as text."""
        needed("tensorboard", "tensorboard")
        writer = needed("torch.utils.tensorboard", "tensorboard").SummaryWriter(str(self.directory))
        lines = [("system", run.system), ("workers", run.workers), ("runtime", run.runtime), ("seed", run.seed), *run.settings.items()]
        writer.add_text("run", "\n".join(f"- {name}: `{value}`" for name, value in lines))
        writer.flush()
        return TensorBoardWriter(writer)


class TensorBoardWriter:
    """Writes metrics to an event file of TensorBoard."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def write(self, metrics: Mapping[str, float], step: int, seconds: float) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self, state: str) -> None:
        self._writer.close()
