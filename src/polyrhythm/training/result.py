"""What `run` returns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from polyrhythm.report.outcome import Outcome, Summary


@dataclass(frozen=True, slots=True)
class Run:
    """The outcome of a run: numbers, weights, a table, a page."""

    outcome: Outcome

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

    def save(self, directory: str | Path) -> Path:
        """Write the run directory: run.json, events.jsonl, weights.safetensors."""
        return self.outcome.save(directory)
