"""The errors of reconstructions, by machine and epoch, which are in checkpoints."""

from __future__ import annotations

from typing import Any

from torch import Tensor


class ReconstructionErrors:
    """`means` has the mean squared error of each epoch of each machine, of this worker's batches.

    `state_dict` and `load_state_dict` are for checkpoints, also in the middle of an epoch.
    """

    def __init__(self, machines: int) -> None:
        self.means: list[list[float]] = [[] for _ in range(machines)]
        self._total, self._samples = 0.0, 0

    def add(self, errors: Tensor) -> None:
        """Count the errors (n,) of a batch."""
        self._total += float(errors.sum())
        self._samples += len(errors)

    def end_epoch(self, machine: int) -> None:
        """An epoch of that machine is over."""
        self.means[machine].append(self._total / max(1, self._samples))
        self._total, self._samples = 0.0, 0

    def state_dict(self) -> dict[str, Any]:
        """All that was counted."""
        return {"means": [[*each] for each in self.means], "total": self._total, "samples": self._samples}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` gave."""
        self.means = [[*each] for each in state["means"]]
        self._total, self._samples = state["total"], state["samples"]
