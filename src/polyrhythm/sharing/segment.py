"""The memory that a group of processes shares: who makes it, and how the others find it.

It is a `memfd`, so that nothing of it can remain, however the processes end. The others open it through /proc of the process
that made it; that a number there means the same file is not certain in every container, so it begins with a token.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass

import torch
from torch import Tensor

from polyrhythm.errors import RunError

LINE = 128
"""Bytes of the counters of a rank."""
BUFFERS = 3
CHUNK = 256 * 1024
"""Bytes of a buffer: three for each rank stay in the last cache, and one in the nearest but one."""
_TOKEN = 64


@dataclass(frozen=True, slots=True)
class SharedSegment:
    """Shared memory for `ranks` ranks: a token, then for each rank a line of counters, then for each three buffers."""

    memory: Tensor
    ranks: int
    path: str
    descriptor: int = -1

    @staticmethod
    def create(ranks: int) -> SharedSegment:
        """New memory; `close` it when all others have opened it."""
        descriptor = os.memfd_create("polyrhythm-group", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, _size(ranks))
        token = secrets.token_hex(_TOKEN // 2).encode()
        os.pwrite(descriptor, token, 0)
        return SharedSegment(
            _map(f"/proc/self/fd/{descriptor}", ranks), ranks, f"/proc/{os.getpid()}/fd/{descriptor} {token.decode()}", descriptor
        )

    @staticmethod
    def open(path: str, ranks: int) -> SharedSegment:
        """The memory that another process of this host made. Raises RunError if it cannot be reached from here."""
        file, _, token = path.partition(" ")
        try:
            memory = _map(file, ranks)
        except FileNotFoundError:
            raise RunError(
                "The shared memory is not there: the process that made it has ended, or is on another host or in another container."
            ) from None
        except (OSError, RuntimeError) as problem:
            raise RunError(f"The shared memory of this host's workers cannot be opened from here: {problem}") from problem
        if memory[:_TOKEN].numpy().tobytes() != token.encode():
            raise RunError(
                "What this host's workers share lies in another container's view of it: processes of one host must see each other."
            )
        return SharedSegment(memory, ranks, path)

    @property
    def base(self) -> Tensor:
        """The memory behind the token."""
        return self.memory[_TOKEN:]

    def close(self) -> None:
        """Let nobody else in; the memory lives as long as someone has it mapped."""
        if self.descriptor >= 0:
            os.close(self.descriptor)


def _size(ranks: int) -> int:
    return _TOKEN + ranks * (LINE + BUFFERS * CHUNK)


def _map(file: str, ranks: int) -> Tensor:
    if os.stat(file).st_size != _size(ranks):
        raise OSError(f"it is not the size for {ranks} ranks")
    return torch.from_file(file, shared=True, size=_size(ranks), dtype=torch.uint8)
