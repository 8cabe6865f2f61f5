"""The two files of one actor in a checkpoint: JSON with its state, and safetensors; each names its run, step and actor."""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from polyrhythm.core.atomic import flush
from polyrhythm.core.checkpoints.manifest import FileContent
from polyrhythm.core.trees import StateTree, separate, unite

TEXT, TENSORS = ".json", ".safetensors"


class TensorLayout(msgspec.Struct, frozen=True):
    """The type and the shape of a tensor."""

    dtype: str
    shape: list[int]


class ActorText(msgspec.Struct, frozen=True):
    """The JSON file: the state of `actor` after `step` of `run`; `layout` and `tensors` describe the safetensors file."""

    run: str
    step: int
    actor: str
    layout: dict[str, TensorLayout]
    tensors: FileContent
    state: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Origin:
    """The run, the step and the actor that a file was written for."""

    run: str
    step: int
    actor: str

    def __str__(self) -> str:
        return f"{self.actor} after step {self.step}" + (f" of the run {self.run}" if self.run else "")


def stem(actor: str) -> str:
    """The name of an actor's files, without the ending."""
    return actor.replace("/", "-")


def write(folder: Path, origin: Origin, state: StateTree) -> None:
    """Write the files of an actor, and flush them. Raises OSError, and CompositionError for a state that no file can hold."""
    text, tensors = separate(state)
    tensor_path, text_path = (folder / f"{stem(origin.actor)}{ending}" for ending in (TENSORS, TEXT))
    save_tensors(tensor_path, tensors, {"run": origin.run, "step": str(origin.step), "actor": origin.actor})
    layout = {name: _layout(tensor) for name, tensor in tensors.items()}
    whole = ActorText(origin.run, origin.step, origin.actor, layout, content_of(tensor_path), msgspec.Raw(text.encode()))
    text_path.write_bytes(msgspec.json.encode(whole))
    flush(text_path)


def read(folder: Path, actor: str) -> StateTree:
    """The state of an actor whose files were verified. Raises OSError, ValueError or LookupError for what `write` has not written."""
    found = msgspec.json.decode((folder / f"{stem(actor)}{TEXT}").read_bytes(), type=ActorText)
    try:
        # copies begin where torch has new tensors begin; in the file they begin anywhere, and what a product is rounded to shows it
        tensors = {name: tensor.clone() for name, tensor in load_file(folder / f"{stem(actor)}{TENSORS}").items()}
    except SafetensorError as problem:
        raise ValueError(str(problem)) from None
    if {name: _layout(tensor) for name, tensor in tensors.items()} != found.layout:
        raise ValueError("its tensors have other names, types or shapes than were written")
    return unite(bytes(found.state).decode(), tensors)


def read_plain(folder: Path, actor: str, part: str) -> StateTree:
    """One part of the state of an actor, which has no tensors, from its JSON file alone. Raises as `read` does."""
    found = msgspec.json.decode((folder / f"{stem(actor)}{TEXT}").read_bytes(), type=ActorText)
    return unite(json.dumps(json.loads(bytes(found.state))[part]), {})


def content_of(path: Path) -> FileContent:
    """The length of the file and its checksum. Raises OSError."""
    with path.open("rb") as file:
        return FileContent(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def misplaced(path: Path, expected: FileContent, whole: bool) -> str:
    """Why the file at `path` is not the one that is `expected`; empty if it is. Unless `whole`, only its length is compared."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return "is not a file"
        if status.st_size == expected.nbytes and (not whole or content_of(path) == expected):
            return ""
    except FileNotFoundError:
        return "is missing"
    except OSError as problem:
        return f"cannot be read ({problem.strerror or problem})"
    if status.st_size != expected.nbytes:
        return f"has {status.st_size} bytes, where {expected.nbytes} were written"
    return "has another content than was written: its SHA-256 differs"


def origin_of(path: Path) -> Origin | None:
    """The origin that the file at `path` states; None if it states none, or cannot be read."""
    try:
        if path.suffix == TEXT:
            text = msgspec.json.decode(path.read_bytes(), type=ActorText)
            return Origin(text.run, text.step, text.actor)
        with safe_open(path, "pt") as file:
            known = file.metadata() or {}
        return Origin(known["run"], int(known["step"]), known["actor"])
    except (OSError, ValueError, LookupError, RecursionError, SafetensorError):
        return None


def save_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, str]) -> None:
    """Write `tensors`, by name, to `path`, with `about` in the file's header, and flush it. Raises OSError."""
    try:
        save_file(dict(tensors), path, metadata=dict(about))
    except SafetensorError as problem:  # includes errors of the operating system, as text
        raise OSError(str(problem)) from None
    flush(path)


def _layout(tensor: Tensor) -> TensorLayout:
    return TensorLayout(str(tensor.dtype).removeprefix("torch."), list(tensor.shape))
