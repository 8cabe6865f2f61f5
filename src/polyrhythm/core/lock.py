"""A lock on a file that is being written; it ends with its process, however that ends."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # not on Windows; there it is unknown whether a run is still under way
    fcntl = None  # type: ignore[assignment]


def hold(file: BinaryIO) -> bool:
    """Lock `file` until it is closed. True if nobody else holds it, and where the file system has no locks."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def is_held(path: Path) -> bool:
    """True if a living process holds the lock on the file at `path`."""
    if fcntl is None or not path.is_file():  # a pipe would wait for its writer
        return False
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def take(path: Path, content: str) -> Callable[[], None] | None:
    """Create or take over the lock file `path` with `content`; None where a living process holds it. Raises OSError.

    Returns a function that deletes the file again. A file left by a process that was killed is taken over.
    """
    while True:
        file = path.open("a+b", buffering=0)
        if not hold(file):
            file.close()
            return None
        if _is_at(file, path):
            break
        file.close()  # who held it has deleted it in between
    file.truncate(0)
    file.write(content.encode())

    def release() -> None:
        if file.closed:
            return
        with suppress(OSError):
            if _is_at(file, path):
                path.unlink()
        if fcntl is not None:
            with suppress(OSError):  # also for children that have inherited it
                fcntl.flock(file, fcntl.LOCK_UN)
        file.close()

    return release


def _is_at(file: FileIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False
