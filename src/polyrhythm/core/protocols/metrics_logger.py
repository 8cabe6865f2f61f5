"""What a logger of metrics is: settings, which open a writer for a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class RunDescription:
    """A run that begins: the name of its system, how many workers, its runtime ("processes", "simulator", …), its seed and its settings."""

    system: str
    workers: int
    runtime: str
    seed: int
    settings: Mapping[str, str] = field(default_factory=dict)


class MetricsWriter(Protocol):
    """Where the metrics of one run go, as they come. What its methods raise is shown as a warning, and the run goes on without it."""

    def write(self, metrics: Mapping[str, float], step: int, seconds: float) -> None:
        """Add metrics by name, of step `step` (of the worker that they are of), `seconds` after the run began, virtual or real."""

    def close(self, state: str) -> None:
        """The run is over: "ended", "failed" or "interrupted"."""


class MetricsLogger(Protocol):
    """Frozen settings."""

    def open(self, run: RunDescription) -> MetricsWriter:
        """A writer for `run`. Raises CompositionError where what it needs is not installed."""
