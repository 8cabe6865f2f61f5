"""The result of a run.

`run` and `Worker.leave` return it; its tables, plots and pages are made by `tools.report`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from polyrhythm.core.records import history
from polyrhythm.core.records.directory import path_of, reason, save
from polyrhythm.core.records.outcome import Outcome, Summary
from polyrhythm.errors import CompositionError, WorkloadError
from polyrhythm.tools.report import trace
from polyrhythm.tools.report.table import text

if TYPE_CHECKING:
    from altair import LayerChart
    from pandas import DataFrame


@dataclass(frozen=True, slots=True, repr=False)
class Run:
    """The result of a run: metrics, weights, a table, a page."""

    outcome: Outcome

    def __repr__(self) -> str:
        summary = self.summary
        return f"<Run of {summary.system} on {summary.workers} workers ({summary.on}): {summary.final}>"

    @property
    def summary(self) -> Summary:
        """The run in numbers, as `--json` prints it."""
        return self.outcome.summary

    @property
    def final(self) -> dict[str, float]:
        """The last reported value of each metric, from worker 0."""
        return self.outcome.summary.final

    @property
    def weights(self) -> dict[str, Tensor]:
        """The final weights by name; `model.load_state_dict(run.weights)`."""
        return self.outcome.weights

    def table(self) -> str:
        """The run as a table with a sentence below."""
        return text([self.outcome])

    def history(self) -> DataFrame:
        """The evaluations and the reports of worker 0 as a pandas frame: a row each, with `time` in seconds, `step`, `bytes_sent`, metrics.

        Raises PolyrhythmError where pandas is not installed.
        """
        return history.frame(self.outcome)

    def plot(self, metric: str | None = None) -> LayerChart:
        """An Altair chart of a metric over time, shown by notebooks; without a name, of the primary one.

        Raises UnknownNameError for a metric without values. `run.plot().save("curve.png")` writes a file (PNG, SVG, PDF, HTML, JSON).
        """
        from polyrhythm.tools.report.plot import metric_over_time  # here, because it loads the drawing library

        return metric_over_time(self.outcome, metric)

    def report(self, path: str | Path) -> Path:
        """Write a self-contained HTML page. Raises CompositionError if it cannot be written."""
        from polyrhythm.tools.report.page import write

        title = f"{self.summary.system} on {self.summary.workers} workers"
        return _written("page", path, lambda file: write([self.outcome], file, title))

    def trace(self, path: str | Path) -> Path:
        """Write a timeline as JSON, for ui.perfetto.dev and chrome://tracing. Raises CompositionError if it cannot be written."""
        return _written("trace", path, lambda file: trace.write([self.outcome], file))

    def save(self, directory: str | Path) -> Path:
        """Write the run directory: run.json, events.jsonl, weights.safetensors. Raises CompositionError if it cannot be written."""
        return save(self.outcome, directory)


Leave = Callable[[], Run]
"""Completes a run that was joined, and returns its result."""


def no_leaving() -> Run:
    """Raise WorkloadError, in a run that was not joined."""
    raise WorkloadError("worker.leave() is for scripts that called pr.join: a run of pr.run ends when the training function returns.")


def _written(what: str, path: str | Path, write: Callable[[Path], Path]) -> Path:
    """The path of the file that `write` has written; raises CompositionError where the system refuses."""
    file = path_of(path)
    try:
        return write(file)
    except OSError as problem:
        raise CompositionError(f"No {what} can be written to {file}: {reason(problem)}. Give another path.") from None
