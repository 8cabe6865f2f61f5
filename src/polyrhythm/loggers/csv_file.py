"""Metrics as a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from polyrhythm.core.protocols.metrics_logger import RunDescription
from polyrhythm.core.settings import checked

COLUMNS = ("seconds", "step", "metric", "value")


@dataclass(frozen=True, slots=True)
@checked
class CSV:
    """A file with one line for each value: seconds, step, metric, value. It is made anew, and each line is flushed when it is written.

    With pandas: `pd.read_csv(path).pivot_table(index="step", columns="metric", values="value")`.
    """

    path: str | Path

    def open(self, run: RunDescription) -> CSVWriter:
        """The file, with its first line."""
        path = Path(self.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        return CSVWriter(path.open("w", newline="", encoding="utf-8"))


class CSVWriter:
    """Writes metrics to the file, one row for each value."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._lines = csv.writer(file)
        self._lines.writerow(COLUMNS)
        file.flush()

    def write(self, metrics: Mapping[str, float], step: int, seconds: float) -> None:
        self._lines.writerows((repr(seconds), step, name, repr(value)) for name, value in metrics.items())
        self._file.flush()

    def close(self, state: str) -> None:
        self._file.close()
