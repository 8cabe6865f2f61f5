"""What it costs to stop, start and resize a job."""

from __future__ import annotations

from dataclasses import dataclass

from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class ChangeCosts:
    """Seconds without progress: `restart` when a job starts again, `resize` when it goes on with other workers.

    A job that is stopped for another writes a checkpoint first. One that loses a host begins again from the last one: they are written
    every `checkpoint` seconds of its running time. A malleable job that goes on with the workers that are left loses nothing but `resize`.
    """

    restart: float = 30.0
    resize: float = 5.0
    checkpoint: float = 1800.0

    def __post_init__(self) -> None:
        if self.restart < 0 or self.resize < 0 or not self.checkpoint > 0:
            raise CompositionError(f"{self} has a cost below zero: give zero or more, and an interval of checkpoints above zero.")
