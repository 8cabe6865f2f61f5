"""What a user wants of checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
class CheckpointRequest:
    """What a user wants: checkpoints in `directory` after `every` steps, the latest `keep` of them; and from which to go on.

    `resume` is a checkpoint or the directory of a run; True takes the newest in `directory`, and begins anew where there is none.
    Raises CompositionError for what cannot be.
    """

    directory: str | Path | None = None
    every: int | None = None
    keep: int = 2
    resume: bool | str | Path = False

    def __post_init__(self) -> None:
        if self.directory is None:
            if self.every is not None:
                raise CompositionError(f"every={self.every} was given without a directory for checkpoints: give checkpoint=DIRECTORY too.")
            if self.resume is True:
                raise CompositionError("resume=True was given without a directory for checkpoints: give checkpoint=DIRECTORY too.")
        if self.every is not None and self.every < 1:
            raise CompositionError(f"every={self.every} is not a number of steps: give 1 or more.")
        if self.keep < 1:
            raise CompositionError(f"keep={self.keep} would keep no checkpoint: give 1 or more.")
