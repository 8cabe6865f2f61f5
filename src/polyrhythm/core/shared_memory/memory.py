"""Bytes that processes of one host share: who makes them, and how the others find them.

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

_TOKEN = 64


@dataclass(frozen=True, slots=True)
class SharedBytes:
    """`content` (nbytes,) of shared memory, which others open by `path`; `descriptor` is -1 in all but the process that made it."""

    content: Tensor
    path: str
    descriptor: int = -1

    @staticmethod
    def create(nbytes: int) -> SharedBytes:
        """New memory; close its descriptor when all others have opened it."""
        descriptor = os.memfd_create("polyrhythm-group", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, _TOKEN + nbytes)
        token = secrets.token_hex(_TOKEN // 2).encode()
        os.pwrite(descriptor, token, 0)
        content = _map(f"/proc/self/fd/{descriptor}", nbytes)[_TOKEN:]
        return SharedBytes(content, f"/proc/{os.getpid()}/fd/{descriptor} {token.decode()}", descriptor)

    @staticmethod
    def open(path: str, nbytes: int) -> SharedBytes:
        """The memory that another process of this host made. Raises RunError if it cannot be reached from here."""
        file, _, token = path.partition(" ")
        try:
            memory = _map(file, nbytes)
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
        return SharedBytes(memory[_TOKEN:], path)


def _map(file: str, nbytes: int) -> Tensor:
    if os.stat(file).st_size != _TOKEN + nbytes:
        raise OSError(f"it is not the size of {nbytes} bytes")
    return torch.from_file(file, shared=True, size=_TOKEN + nbytes, dtype=torch.uint8)
