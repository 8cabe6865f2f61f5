"""The memory through which a group of processes adds up."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
from torch import Tensor

from polyrhythm.core.shared_memory.memory import SharedBytes

LINE = 128
"""Bytes of the counters of a rank."""
BUFFERS = 3
CHUNK = 256 * 1024
"""Bytes of a buffer: three for each rank stay in the last cache, and one in the nearest but one."""


@dataclass(frozen=True, slots=True)
class SharedSegment:
    """Shared memory for `ranks` ranks: for each rank a line of counters, then for each three buffers."""

    memory: SharedBytes
    ranks: int

    @staticmethod
    def create(ranks: int) -> SharedSegment:
        """New memory; `close` it when all others have opened it."""
        return SharedSegment(SharedBytes.create(_size(ranks)), ranks)

    @staticmethod
    def open(path: str, ranks: int) -> SharedSegment:
        """The memory that another process of this host made. Raises RunError if it cannot be reached from here."""
        return SharedSegment(SharedBytes.open(path, _size(ranks)), ranks)

    @property
    def path(self) -> str:
        """The path by which other processes open it."""
        return self.memory.path

    @property
    def base(self) -> Tensor:
        """The lines and buffers."""
        return self.memory.content

    @property
    def counts(self) -> Tensor:
        """How far each rank is (ranks,)."""
        return self.base[: LINE * self.ranks].view(torch.int32)[:: LINE // 4]

    def close(self) -> None:
        """Let no other process map it; the memory exists as long as one has it mapped."""
        if self.memory.descriptor >= 0:
            os.close(self.memory.descriptor)


def _size(ranks: int) -> int:
    return ranks * (LINE + BUFFERS * CHUNK)
