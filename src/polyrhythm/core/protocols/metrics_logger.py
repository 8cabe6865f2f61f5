"""Protocol of loggers of metrics: settings that open a writer for a run.

Members are in `loggers`. `run(loggers=...)` takes them, and the record of the run writes the workers' metrics to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class RunDescription:
    """A run that starts: the name of its system, the number of workers, the runtime ("processes", "simulator", …), seed and settings."""

    system: str
    workers: int
    runtime: str
    seed: int
    settings: Mapping[str, str] = field(default_factory=dict)


class MetricsWriter(Protocol):
    """Receives the metrics of one run as they come. An error in its methods is shown as a warning, and the run continues without it."""

    def write(self, metrics: Mapping[str, float], step: int, seconds: float) -> None:
        """Add metrics by name, of step `step` of the worker that reported them, `seconds` after the run started, virtual or real."""

    def close(self, state: str) -> None:
        """The run is over: "ended", "failed" or "interrupted"."""


class MetricsLogger(Protocol):
    """A destination of metrics. Settings are frozen."""

    def open(self, run: RunDescription) -> MetricsWriter:
        """A writer for `run`. Raises CompositionError where a library that it needs is not installed."""
