"""One checkpoint: a directory with a manifest, and for each actor a JSON file and a safetensors file."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from polyrhythm.core.atomic import flush, writing
from polyrhythm.core.checkpoints import actor_files
from polyrhythm.core.checkpoints.actor_files import TENSORS, TEXT, Origin, content_of, stem
from polyrhythm.core.checkpoints.manifest import MANIFEST, MOST_BYTES, FileContent, Manifest, decode, encode
from polyrhythm.core.trees import StateTree
from polyrhythm.errors import CheckpointError

NAME = re.compile(r"step-(\d{8,})")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint in the directory `path`."""

    path: Path

    @property
    def manifest(self) -> Manifest:
        """The manifest in its directory. Raises CheckpointError for what is no checkpoint, is damaged, or of another version."""
        try:
            return self._manifest()
        except (OSError, ValueError) as problem:
            if isinstance(problem, CheckpointError):
                raise
            raise self._damaged(f"its {MANIFEST} cannot be used ({_reason(problem)})") from None

    def read(self, actor: str) -> StateTree:
        """The state that `actor` exported, to the bit. Raises CheckpointError where its files are not those that it wrote."""
        return self._read(actor, _names(actor), partial(actor_files.read, self.path, actor))

    def read_plain(self, actor: str, part: str) -> StateTree:
        """One part of the state that `actor` exported, which has no tensors; its other file is not read."""
        return self._read(actor, _names(actor)[1:], partial(actor_files.read_plain, self.path, actor, part))

    def _read(self, actor: str, names: Sequence[str], read: Callable[[], StateTree]) -> StateTree:
        manifest = self.manifest
        if not manifest.files.keys() >= set(names):
            raise CheckpointError(
                f"{self.path} has no state of {actor}, which had none to write in the run of that checkpoint: resume it with the settings "
                "and the training function that wrote it."
            )
        for name in names:
            if reason := self._wrong(manifest, name, whole=True):
                raise self._damaged(reason)
        try:
            return read()
        except (OSError, ValueError, LookupError, TypeError, RecursionError) as problem:
            raise self._damaged(f"the state of {actor} cannot be read ({_reason(problem)})") from None

    def check(self) -> None:
        """Raise CheckpointError where a file is missing or has another length. Checksums are verified by `read`."""
        if reason := self._first_wrong(self.manifest, whole=False):
            raise self._damaged(reason)

    @property
    def intact(self) -> bool:
        """True if every byte is as it was written; all files are read for that."""
        try:
            return not self._first_wrong(self._manifest(), whole=True)
        except (OSError, ValueError):
            return False

    def _manifest(self) -> Manifest:
        path = self.path / MANIFEST
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a file")
        if status.st_size > MOST_BYTES:
            raise ValueError("it is longer than any that a run writes")
        try:
            return decode(path.read_bytes())
        except CheckpointError as problem:
            raise CheckpointError(f"{self.path} {problem}.") from None

    def _first_wrong(self, manifest: Manifest, whole: bool) -> str:
        named = NAME.fullmatch(self.path.name)
        if named is not None and int(named[1]) != manifest.step:
            return f"it was written after step {manifest.step}, and has got another name"
        return next(filter(None, (self._wrong(manifest, name, whole) for name in manifest.files)), "")

    def _wrong(self, manifest: Manifest, name: str, whole: bool) -> str:
        """Why the file is not the one in the manifest; empty if it is."""
        reason = actor_files.misplaced(self.path / name, manifest.files[name], whole)
        if not reason:
            return ""
        found = actor_files.origin_of(self.path / name) if (self.path / name).is_file() else None
        if found is None or (found.run, found.step, stem(found.actor)) == (manifest.run, manifest.step, Path(name).stem):
            return f"{name} {reason}"
        return f"{name} is a file of {found}, not the one that was written here"

    def _damaged(self, reason: str) -> CheckpointError:
        others = [path for path in sibling_steps(self.path) if Checkpoint(path).intact]
        remedy = "No other in its directory is intact: begin a new run in another directory."
        if others:
            shown = ", ".join(path.name for path in others)
            remedy = (
                f"Intact in its directory: {shown}; give the path of one as resume in Python, or delete {self.path.name} and later ones."
            )
        return CheckpointError(f"{self.path} is damaged, or not a checkpoint: {reason}. {remedy}")


@dataclass(frozen=True, slots=True)
class PartialCheckpoint:
    """A checkpoint that is being written in the directory `path`: of all workers after `step`, by the run of this name."""

    path: Path
    step: int
    run: str = ""

    def write(self, actor: str, state: StateTree) -> None:
        """Write the state that `actor` has exported. Raises OSError."""
        with writing():
            actor_files.write(self.path, Origin(self.run, self.step, actor), state)

    def conclude(self, manifest: Manifest) -> None:
        """Write the manifest, when all actors have written. Raises OSError, and CheckpointError for files that are not of this run."""
        files: dict[str, FileContent] = {}
        for path in sorted(self.path.glob(f"*{TEXT}")):
            files |= self._contents(path)
        for actor in manifest.members:
            if not files.keys() >= set(_names(actor)):
                raise CheckpointError(f"{self.path} has no file of {actor}: can every host write to the same directory?")
        text = encode(msgspec.structs.replace(manifest, run=self.run, files=files))
        with writing():
            (self.path / MANIFEST).write_bytes(text)
            flush(self.path / MANIFEST)
            flush(self.path)

    def _contents(self, path: Path) -> dict[str, FileContent]:
        """The contents of an actor's files; `path` is that of its JSON file, which holds the checksum of the other."""
        found = msgspec.json.decode(path.read_bytes(), type=actor_files.ActorText)
        if (found.run, found.step, stem(found.actor)) != (self.run, self.step, path.stem):
            origin = Origin(found.run, found.step, found.actor)
            raise CheckpointError(f"{path} is a file of {origin}: another run writes checkpoints into the same directory.")
        return {path.with_suffix(TENSORS).name: found.tensors, path.name: content_of(path)}


def sibling_steps(path: Path) -> list[Path]:
    """The other checkpoints in the directory of the checkpoint `path`, the earliest first."""
    if not NAME.fullmatch(path.name):
        return []
    try:
        found = [other for other in path.parent.iterdir() if NAME.fullmatch(other.name) and other.name != path.name]
    except OSError:
        return []
    return sorted(found, key=lambda other: int(other.name.removeprefix("step-")))


def _names(actor: str) -> tuple[str, str]:
    return f"{stem(actor)}{TENSORS}", f"{stem(actor)}{TEXT}"


def _reason(problem: Exception) -> str:
    message = problem.strerror if isinstance(problem, OSError) else None
    return message or str(problem) or type(problem).__name__
