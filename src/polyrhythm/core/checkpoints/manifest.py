"""The manifest of a checkpoint: the run that wrote it, and checksums of each of its files and of the manifest itself.

Worker 0 writes it when all actors have written their files; each actor of a resumed run reads it before its state.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import msgspec

from polyrhythm.errors import CheckpointError

MANIFEST = "manifest.json"
VERSION = 3
MOST_BYTES = 1 << 30
"""An upper bound on the length of a manifest, which has some hundred bytes for each file."""


class FileContent(msgspec.Struct, frozen=True):
    """The length of a file, and the SHA-256 of all its bytes in hexadecimal digits, as `sha256sum` prints it."""

    nbytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """The description of a checkpoint: the run's settings, the `step` of every worker, and the seconds that the run's clock showed.

    `members` are the workers that wrote it, in the order of ranks. `strategy` has the pieces by axis, as text; `groups` the members of each
    group of workers that exchange with each other. `changes` counts how often the run was resumed by other workers or groups; `version` is
    that of the format. `circumstances` may differ in a resumed run, which then reports it; `resumes` is a sentence on how such a run ends.
    `run` names the run that wrote it, `files` has length and checksum of every other file in the directory; `sha256` is the checksum of the
    manifest itself, computed with an empty `sha256`.
    """

    step: int
    seconds: float
    members: list[str]
    servers: int
    seed: int
    strategy: dict[str, str]
    groups: list[list[str]]
    changes: int = 0
    version: int = VERSION
    run: str = ""
    circumstances: dict[str, str] = {}
    resumes: str = ""
    files: dict[str, FileContent] = {}
    sha256: str = ""


class _Version(msgspec.Struct):
    """The one field that manifests of all versions have."""

    version: int


def encode(manifest: Manifest) -> bytes:
    """The text of `manifest`, with its checksum."""
    return _text(msgspec.structs.replace(manifest, sha256=_checksum(manifest)))


@lru_cache(maxsize=8)  # every actor of a run reads the same one
def decode(text: bytes) -> Manifest:
    """The manifest in `text`. Raises ValueError for what `encode` has not written, CheckpointError for another version."""
    try:
        version = msgspec.json.decode(text, type=_Version).version
        if version != VERSION:
            raise CheckpointError(
                f"was written in version {version} of the format, and this release reads version {VERSION}: resume it with the release "
                "that wrote it"
            )
        found = msgspec.json.decode(text, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise ValueError(f"it is not what a run writes: {problem}") from None
    if _text(found) != text or _checksum(found) != found.sha256:  # text that means the same, such as a key twice, is refused too
        raise ValueError("it was changed after it was written: its checksum differs")
    return found


def _text(manifest: Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest))


def _checksum(manifest: Manifest) -> str:
    return hashlib.sha256(_text(msgspec.structs.replace(manifest, sha256=""))).hexdigest()
