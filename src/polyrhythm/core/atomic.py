"""Atomic writes of files: to a hidden name in the same directory, flushed to the disk, then renamed.

Checkpoints, the record of a run, reports and the command line write their files with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

under_way: dict[int, None] = {}
"""The numbers of the writes to disks that have begun and not ended: a disk that makes a process wait can be seen from outside."""
_numbers = count(1)


@contextmanager
def writing() -> Iterator[None]:
    """The block writes to a disk, which may take long."""
    number = next(_numbers)
    under_way[number] = None
    try:
        yield
    finally:
        del under_way[number]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A hidden name next to `path` to write to; if the block ends without an error, that file replaces `path`.

    Otherwise `path` is unchanged and nothing is left. Raises OSError. What is not a regular file, such as /dev/stdout, is written to
    directly.
    """
    target = Path(os.path.realpath(path))  # a link stays a link
    if target.exists() and not target.is_file():
        yield target
        return
    fresh = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        yield fresh
        flush(fresh)
        os.replace(fresh, target)
        with suppress(OSError):  # not every system lets a directory be flushed; the file is whole without it
            flush(target.parent)
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)


def write(path: Path, content: bytes) -> None:
    """Write `content` to `path`: all of it, or nothing. Raises OSError."""
    with writing(), replacing(path) as fresh:
        fresh.write_bytes(content)


def flush(path: Path) -> None:
    """Flush `path` to the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
