"""The user's settings for checkpoints, checked.

`run`, `join` and the command line make a request from their arguments; `training.checkpoint_plan` makes the run's plan from it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Literal, SupportsIndex

from polyrhythm.core.checkpoints.moments import ByCost, CheckpointMoments, EverySteps, OnRequest
from polyrhythm.core.settings import shown
from polyrhythm.errors import CompositionError

_AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Checkpoints in `directory` after `every` steps, the latest `keep` of them; and the checkpoint to resume from.

    With every="auto" the first checkpoint is after ten steps, and the others at the interval that costs least, by what writing one takes
    and the mean time between failures: `mtbf` hours, or as the run itself shows, beginning with one loss a day for each worker.

    `resume` is a checkpoint or the directory of a run; True takes the newest in `directory`, and starts from the beginning if it has none.
    A run that was started again `restarts` times, and has taken no further step, ends with a NoProgressError.

    A run that is asked to stop, by SIGTERM or SIGHUP, may take `grace` seconds to write a last one. `override` names settings of which a
    resumed run takes its own, and not those of the checkpoint. Raises CompositionError for what cannot be.
    """

    directory: str | Path | None = None
    every: int | Literal["auto"] | None = None
    keep: int = 2
    resume: bool | str | Path = False
    grace: float = 20.0
    override: Sequence[str] = ()
    mtbf: float | None = None
    restarts: int = 3

    def __post_init__(self) -> None:
        every = None if self.every == _AUTO else self.every
        for name, number in (("every", every), ("keep", self.keep), ("restarts", self.restarts)):
            if (number is not None or name != "every") and (isinstance(number, bool) or not isinstance(number, SupportsIndex)):
                raise CompositionError(f"{name}={shown(number)} is not a whole number: give 1 or more.")
        if self.directory is not None and not isinstance(self.directory, (str, PathLike)):
            raise CompositionError(f"directory={self.directory!r} is not a path: give that of a directory.")
        for name, path in (("directory", self.directory), ("resume", self.resume)):
            if not isinstance(path, bool) and path is not None and (str(path) == "" or "\0" in str(path)):
                raise CompositionError(f"{name}={shown(path)} is not a path: it is empty or has a null character: give another.")
        if not isinstance(self.resume, (bool, str, PathLike)):
            raise CompositionError(f"resume={shown(self.resume)} is not a path: give that of a checkpoint, True or False.")
        if not isinstance(self.override, (list, tuple, set, frozenset)) or not all(isinstance(name, str) for name in self.override):
            raise CompositionError(f"override={self.override!r} is not a list of names: give some such as override=['lr'].")
        if self.override and self.resume is False:
            raise CompositionError(f"override={list(self.override)} was given without resume: only a resumed run has settings to override.")
        if self.directory is None:
            if self.every is not None:
                raise CompositionError(
                    f"every={self.every} was given without a directory for checkpoints: give it too (directory=, or --checkpoint)."
                )
            if self.resume is True:
                raise CompositionError("resume was given without a directory for checkpoints: give it too (directory=, or --checkpoint).")
        if every is not None and int(every) < 1:
            raise CompositionError(f"every={self.every} is not a number of steps: give 1 or more.")
        if isinstance(self.grace, bool) or not isinstance(self.grace, (int, float)) or not 0 <= self.grace < math.inf:
            raise CompositionError(f"grace={self.grace!r} is no time to write a last checkpoint in: give 0 or more seconds.")
        if self.mtbf is not None and self.every != _AUTO:
            raise CompositionError(f"mtbf={self.mtbf!r} was given without every='auto', which alone uses it: give that too.")
        if self.mtbf is not None and (
            isinstance(self.mtbf, bool) or not isinstance(self.mtbf, (int, float)) or not 0 < self.mtbf < math.inf
        ):
            raise CompositionError(f"mtbf={self.mtbf!r} is no time between failures: give hours, more than 0.")
        if self.restarts < 0:
            raise CompositionError(f"restarts={self.restarts} is no number of restarts: give 0 or more.")
        if self.keep < 1:
            raise CompositionError(f"keep={self.keep} would keep no checkpoint: give 1 or more.")

    @property
    def moments(self) -> CheckpointMoments:
        """The rule that `every` means."""
        if self.every == _AUTO:
            return ByCost(self.mtbf)
        return OnRequest() if self.every is None else EverySteps(int(self.every))


def given_checkpoints(given: object) -> Checkpoints:
    """`given`, or none at all. Raises CompositionError where it is something else, such as the path of a directory."""
    if given is None:
        return Checkpoints()
    if not isinstance(given, Checkpoints):
        raise CompositionError(f"checkpoints={shown(given)} are none: give such as pr.Checkpoints('directory', every=100).")
    return given
