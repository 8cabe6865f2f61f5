"""Locks that a worker holds while it takes a step."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Protocol


class StepLock(Protocol):
    """A lock around the steps of a worker, as frozen settings."""

    def held(self) -> AbstractContextManager[None]:
        """A context that holds the lock, around a step from the first weight that it reads to the last that it writes."""


@dataclass(frozen=True, slots=True)
class NoLock:
    """No lock: steps of several workers overlap."""

    def held(self) -> AbstractContextManager[None]:
        return nullcontext()


@dataclass(frozen=True, slots=True)
class GlobalLock:
    """One lock for all processes of a host: the operating system's, on the file `path`."""

    path: str

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait until no other process has the lock, and hold it."""
        import fcntl  # Linux has it, and the catalogue is read elsewhere too

        descriptor = _opened(self.path)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)


@cache
def _opened(path: str) -> int:
    return os.open(path, os.O_RDWR)
