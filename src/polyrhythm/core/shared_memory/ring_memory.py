"""The memory of rings, and what both engines of them do: `_rings.c`, and `portable_rings.py` where there is no C compiler."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Protocol

from polyrhythm.core.shared_memory.memory import SharedBytes

LINE = 128
HEADER = 16
_MOST_BYTES = 1024 * 1024
_FEWEST_BYTES = 16 * 1024
_ALL_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class RingMemory:
    """Shared memory with a ring for each ordered pair of `ranks` ranks; pages that no message has touched take no memory."""

    memory: SharedBytes
    ranks: int

    @staticmethod
    def create(ranks: int) -> RingMemory:
        """New memory; `close` it when all others have opened it."""
        return RingMemory(SharedBytes.create(_size(ranks)), ranks)

    @staticmethod
    def open(path: str, ranks: int) -> RingMemory:
        """The memory that another process of this host made. Raises RunError if it cannot be reached from here."""
        return RingMemory(SharedBytes.open(path, _size(ranks)), ranks)

    @property
    def capacity(self) -> int:
        """The bytes that a ring can hold."""
        return capacity(self.ranks)

    def close(self) -> None:
        """Let no other process map it; the memory exists as long as one has it mapped."""
        if self.memory.descriptor >= 0:
            os.close(self.memory.descriptor)


class Rings(Protocol):
    """One rank's rings, to and from each other; addresses are of memory that the caller keeps. No method but `wait` waits."""

    def begin(self, receiver: int, tag: int, address: int, nbytes: int, /) -> int:
        """Begin a message: the bytes of its content that went, or -1 if there was no room for any of it."""

    def put(self, receiver: int, address: int, nbytes: int, /) -> int:
        """The bytes that went, of the rest of a content."""

    def head(self, sender: int, /) -> tuple[int, int] | None:
        """The tag and the bytes of the message that is next; None if none is there."""

    def skip(self, sender: int, /) -> None:
        """Have done with that header: what is read next is the content."""

    def get(self, sender: int, address: int, nbytes: int, /) -> int:
        """The bytes that came."""

    def calls(self) -> int:
        """The number of times that this rank was called: something came, or there is room."""

    def call(self, rank: int, /) -> None:
        """Call `rank`."""

    def wait(self, seen: int, seconds: float, /) -> None:
        """Return when there were more calls than `seen`, or after some time, at most `seconds`. Signals are served."""


def capacity(ranks: int) -> int:
    """The bytes of a ring: fewer where there are many."""
    return max(_FEWEST_BYTES, min(_MOST_BYTES, _ALL_BYTES // ranks**2 // LINE * LINE))


def _size(ranks: int) -> int:
    return ranks * LINE + ranks**2 * (2 * LINE + capacity(ranks))
