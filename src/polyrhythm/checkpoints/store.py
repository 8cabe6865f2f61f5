"""The directory in which a run keeps its latest checkpoints."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from polyrhythm.atomic import flush
from polyrhythm.checkpoints.checkpoint import MANIFEST, Checkpoint, Manifest
from polyrhythm.errors import CheckpointError

_NAME = re.compile(r"step-(\d+)")


@dataclass(frozen=True, slots=True)
class CheckpointStore:
    """Checkpoints step-00000120, step-00000240, … in `directory`; the latest `keep` of them stay.

    A checkpoint is written under a hidden name and renamed when every actor has written and flushed its part: what has a name without a dot
    is whole, whenever a process or the machine stops.
    """

    directory: Path
    keep: int = 2

    def prepare(self) -> None:
        """Make the directory. Raises CheckpointError where checkpoints cannot be written."""
        if (self.directory / MANIFEST).is_file():
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

    def partial(self, step: int) -> Checkpoint:
        """The checkpoint of `step` that is being written; its directory is made. Raises OSError."""
        path = self.directory / f".{_named(step)}.partial"
        path.mkdir(parents=True, exist_ok=True)
        return Checkpoint(path)

    def commit(self, step: int, manifest: Manifest) -> Checkpoint:
        """Make the partial checkpoint of `step` a whole one, and delete those that are not kept. Raises OSError.

        Checkpoints of later steps are deleted too: this run was resumed from before them, and they are not of it.
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
        """The directories of all whole checkpoints, the earliest step first."""
        if not self.directory.is_dir():
            return []
        found = [(int(match[1]), path) for path in self.directory.iterdir() if (match := _NAME.fullmatch(path.name))]
        return [path for _, path in sorted(found) if (path / MANIFEST).is_file()]

    def newest(self) -> Checkpoint | None:
        """The checkpoint of the latest step; None where there is none yet."""
        found = self.whole()
        return Checkpoint(found[-1]) if found else None

    def discard(self, step: int) -> None:
        """Delete what was written of the partial checkpoint of `step`."""
        shutil.rmtree(self.directory / f".{_named(step)}.partial", ignore_errors=True)

    def clean(self) -> None:
        """Delete what runs that were broken off have left half-written."""
        for left in [*self.directory.glob(".step-*.partial"), *self.directory.glob(".step-*.replaced")]:
            shutil.rmtree(left, ignore_errors=True)


def find(given: Path) -> Checkpoint:
    """The checkpoint at `given`: that of one step, or the newest of a run's. Raises CheckpointError where there is none."""
    if (given / MANIFEST).is_file():
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
    """Delete a checkpoint: under a hidden name, so that a part of it is not taken for the whole."""
    hidden = path.with_name(f".{path.name}.replaced")
    shutil.rmtree(hidden, ignore_errors=True)
    with suppress(OSError):
        os.replace(path, hidden)
    shutil.rmtree(hidden, ignore_errors=True)
