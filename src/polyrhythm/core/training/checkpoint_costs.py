"""The clock of a run's checkpoints at its first worker: how long steps take, and writing. `Checkpointing` keeps one for its coordinator."""

from __future__ import annotations

from collections.abc import Callable

from polyrhythm.core.checkpoints.moments import MeasuredCosts


class CheckpointCosts:
    """Measures by the clock `now`, which showed `began` when the run was started, among so many `workers`; `losses` counts lost ones."""

    def __init__(self, now: Callable[[], float], began: float, step: int, workers: int, losses: Callable[[], int]) -> None:
        self._now = now
        self._workers = workers
        self._losses = losses
        self._began = began
        self._since = self._ready = now()
        self._restart = self._since - began
        self._step = step

    def ready(self) -> None:
        """Note that all workers have come to the step of a checkpoint."""
        self._ready = self._now()

    def written(self, step: int) -> MeasuredCosts:
        """What was measured when the checkpoint of `step` is written; the next steps are timed from here."""
        now = self._now()
        each = (self._ready - self._since) / max(1, step - self._step)
        self._since, self._step = now, step
        return MeasuredCosts(each, now - self._ready, self._restart, now - self._began, self._workers, self._losses())
