"""One checkpoint: a directory with a manifest, and for each actor a JSON file beside a safetensors file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from polyrhythm.atomic import flush
from polyrhythm.errors import CheckpointError
from polyrhythm.trees import StateTree, separate, unite

MANIFEST = "manifest.json"
VERSION = 1
_REMEDY = "Delete it to resume from the one before it, or give resume=PATH in Python."


class Manifest(msgspec.Struct, frozen=True):
    """What a checkpoint is of: the run's settings, the `step` of every worker, and the seconds that the run's clock showed.

    `strategy` has the pieces by axis, as text; `groups` the members of each group of workers that exchange with each other.
    `version` is that of the format.
    """

    step: int
    seconds: float
    workers: int
    servers: int
    seed: int
    strategy: dict[str, str]
    groups: list[list[str]]
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint in the directory `path`."""

    path: Path

    @property
    def manifest(self) -> Manifest:
        """What it is of. Raises CheckpointError for what is no checkpoint, or one of another version."""
        try:
            found = msgspec.json.decode((self.path / MANIFEST).read_bytes(), type=Manifest)
        except (OSError, msgspec.DecodeError) as problem:
            raise CheckpointError(
                f"{self.path} is damaged, or not a checkpoint: its {MANIFEST} cannot be read ({problem}). {_REMEDY}"
            ) from None
        if found.version != VERSION:
            raise CheckpointError(
                f"{self.path} was written in version {found.version} of the format, and this release reads version {VERSION}: resume it "
                "with the release that wrote it."
            )
        return found

    def write(self, actor: str, state: StateTree) -> None:
        """Write what `actor` has exported. Raises OSError."""
        text, tensors = separate(state)
        tensor_path, text_path = self._files(actor)
        save_tensors(tensor_path, tensors)
        text_path.write_text(text)
        flush(text_path)

    def read(self, actor: str) -> StateTree:
        """What `actor` had exported. Raises CheckpointError where it cannot be read."""
        tensor_path, text_path = self._files(actor)
        try:
            # copies begin where torch has new tensors begin; in the file they begin anywhere, and what a product is rounded to shows it
            tensors = {name: tensor.clone() for name, tensor in load_file(tensor_path).items()}
            return unite(text_path.read_text(), tensors)
        except (OSError, ValueError, SafetensorError) as problem:
            raise CheckpointError(f"{self.path} is damaged: the state of {actor} cannot be read ({problem}). {_REMEDY}") from None

    def conclude(self, manifest: Manifest) -> None:
        """Write the manifest, when all actors have written. Raises OSError."""
        (self.path / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
        flush(self.path / MANIFEST)
        flush(self.path)

    def _files(self, actor: str) -> tuple[Path, Path]:
        name = actor.replace("/", "-")
        return self.path / f"{name}.safetensors", self.path / f"{name}.json"


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write `tensors`, by name, to `path`, and flush it. Raises OSError."""
    try:
        save_file(dict(tensors), path)
    except SafetensorError as problem:  # includes errors of the operating system, as text
        raise OSError(str(problem)) from None
    flush(path)
