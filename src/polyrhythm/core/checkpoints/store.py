"""The directory in which a run keeps its latest checkpoints.

`training.checkpoint_plan` prepares it; worker 0 locks it and commits checkpoints; every worker and server writes its part.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from polyrhythm.core import lock
from polyrhythm.core.atomic import flush
from polyrhythm.core.checkpoints.checkpoint import NAME, Checkpoint, PartialCheckpoint
from polyrhythm.core.checkpoints.manifest import MANIFEST, Manifest
from polyrhythm.errors import CheckpointError

LOCK = ".run"
_ALIKE = re.compile(r"step-\d+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CheckpointStore:
    """Checkpoints step-00000120, step-00000240, … in `directory`; the latest `keep` of them stay.

    A checkpoint is written under a hidden name and renamed when every actor has written and flushed its part: a directory whose name has no
    leading dot is complete, whenever a process or the machine stops. While a run writes here, worker 0 locks a file with the run's name.
    """

    directory: Path
    keep: int = 2

    def prepare(self) -> None:
        """Make the directory. Raises CheckpointError where checkpoints cannot be written."""
        if os.path.isfile(self.directory / MANIFEST):
            raise CheckpointError(
                f"{self.directory} is a checkpoint itself: give the directory it is in, {self.directory.parent}, or, to resume it and "
                "not the newest, resume=PATH in Python."
            )
        reason = ""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            reason = problem.strerror or str(problem)
        if reason or not os.access(self.directory, os.W_OK | os.X_OK):
            raise CheckpointError(
                f"No checkpoint can be written in {self.directory} ({reason or 'Permission denied'}): give one that can be written."
            )
        if lock.is_held(self.directory / LOCK):
            raise self._taken()

    def lock(self) -> Callable[[], None]:
        """Keep other runs out until the returned function is called, and delete the partial checkpoints of runs that were broken off.

        Called by worker 0 alone; the locked file gets a new name for the run. Raises CheckpointError where another run holds the lock.
        """
        try:
            release = lock.take(self.directory / LOCK, uuid.uuid4().hex[:16])
        except OSError as problem:
            raise CheckpointError(
                f"No checkpoint can be written in {self.directory} ({problem.strerror or problem}): give one that can be written."
            ) from None
        if release is None:
            raise self._taken()
        for left in [*self.directory.glob(".step-*.partial"), *self.directory.glob(".step-*.replaced")]:
            shutil.rmtree(left, ignore_errors=True)
        return release

    def partial(self, step: int) -> PartialCheckpoint:
        """The checkpoint of `step` that is being written; its directory is made. Raises OSError."""
        path = self.directory / f".{_named(step)}.partial"
        path.mkdir(parents=True, exist_ok=True)
        run = ""
        with suppress(FileNotFoundError):
            run = (self.directory / LOCK).read_text()
        return PartialCheckpoint(path, step, run)

    def commit(self, step: int, manifest: Manifest) -> Checkpoint:
        """Make the partial checkpoint of `step` a complete one, and delete those that are not kept.

        Checkpoints of later steps are deleted too: this run was resumed before them, so it did not write them. Raises OSError, and
        CheckpointError where the parts are not those of this run.
        """
        partial, whole, earlier = self.partial(step), self.directory / _named(step), self.directory / f".{_named(step)}.replaced"
        partial.conclude(manifest)
        if whole.exists():  # of a run that was resumed from before this step
            os.replace(whole, earlier)
        os.replace(partial.path, whole)
        with suppress(OSError):  # not every system lets a directory be flushed
            flush(self.directory)
        shutil.rmtree(earlier, ignore_errors=True)
        found = self.whole()
        position = found.index(whole) + 1
        for other in [*found[: max(position - self.keep, 0)], *found[position:]]:
            _remove(other)
        return Checkpoint(whole)

    def whole(self) -> list[Path]:
        """The directories of all checkpoints, the earliest step first."""
        return [path for path in self._named() if os.path.isfile(path / MANIFEST)]

    def newest(self) -> Checkpoint | None:
        """The checkpoint of the latest step; None where there is none yet.

        Raises CheckpointError for a damaged one that would be skipped: without its manifest, or under a name that no run gives.
        """
        named = self._named()
        if named and not os.path.isfile(named[-1] / MANIFEST):
            _ = Checkpoint(named[-1]).manifest
        for other in self._entries():
            if _ALIKE.fullmatch(other.name) and not NAME.fullmatch(other.name):
                digits = int(other.name.partition("-")[2])
                raise CheckpointError(
                    f"{other} has not the name of a checkpoint, and looks like one that was renamed: call it {_named(digits)}, or move it "
                    "out of this directory."
                )
        return Checkpoint(named[-1]) if named else None

    def discard(self, step: int) -> None:
        """Delete what was written of the partial checkpoint of `step`."""
        shutil.rmtree(self.directory / f".{_named(step)}.partial", ignore_errors=True)

    def _taken(self) -> CheckpointError:
        return CheckpointError(
            f"Another run is writing its checkpoints into {self.directory}: give another directory, or wait until that run has ended."
        )

    def _named(self) -> list[Path]:
        return sorted((path for path in self._entries() if NAME.fullmatch(path.name)), key=lambda path: int(path.name[5:]))

    def _entries(self) -> list[Path]:
        try:
            return sorted(self.directory.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as problem:
            raise CheckpointError(
                f"{self.directory} cannot be read ({problem.strerror or problem}): give a directory that --checkpoint or "
                "pr.run(checkpoint=...) has written."
            ) from None


def find(given: Path) -> Checkpoint:
    """The checkpoint at `given`: that of one step, or the newest of a run's. Raises CheckpointError where there is none."""
    if os.path.isfile(given / MANIFEST) or NAME.fullmatch(given.name):
        return Checkpoint(given)
    newest = CheckpointStore(given).newest()
    if newest is None:
        raise CheckpointError(
            f"{given} has no complete checkpoint: give a directory that --checkpoint or pr.run(checkpoint=...) has written."
        )
    return newest


def _named(step: int) -> str:
    return f"step-{step:08d}"


def _remove(path: Path) -> None:
    """Delete a checkpoint, under a hidden name, so that a part of it is not taken for a complete one."""
    hidden = path.with_name(f".{path.name}.replaced")
    shutil.rmtree(hidden, ignore_errors=True)
    with suppress(OSError):
        os.replace(path, hidden)
    shutil.rmtree(hidden, ignore_errors=True)
