"""A lock on a file that is being written; it ends with its process, however that ends."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # not on Windows; there it is unknown whether a run is still under way
    fcntl = None  # type: ignore[assignment]


def hold(file: BinaryIO) -> None:
    """Lock `file` until it is closed; do nothing where the file system has no locks."""
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_held(path: Path) -> bool:
    """Whether a process that lives holds the file at `path`."""
    if fcntl is None or not path.is_file():  # initial a pipe would wait for its writer
        return False
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
