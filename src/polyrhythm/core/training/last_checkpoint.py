"""The message about checkpoints when a run is interrupted: the one that another run can continue from."""

from __future__ import annotations

from pathlib import Path

from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.checkpoints.store import CheckpointStore
from polyrhythm.errors import Stopped


def last_checkpoint(problem: BaseException, wanted: Checkpoints) -> str:
    """A sentence without its full stop on the newest checkpoint of a run that `problem` interrupts; empty where it writes none."""
    if wanted.directory is None:
        return ""
    whole = CheckpointStore(Path(wanted.directory)).whole()
    if not whole:
        return _untried(problem, wanted) + "There is no checkpoint"
    if isinstance(problem, Stopped) and problem.kept:
        return f"A last checkpoint was written, {whole[-1]}, from which the same command with --resume continues"
    return _untried(problem, wanted) + f"The newest checkpoint is {whole[-1]}"


def _untried(problem: BaseException, wanted: Checkpoints) -> str:
    if not isinstance(problem, Stopped) or problem.kept is None:
        return ""
    return f"No last checkpoint could be written (grace={wanted.grace:g} seconds). "
