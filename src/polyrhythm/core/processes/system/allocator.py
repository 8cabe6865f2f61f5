"""The C library's allocator, set to keep what is freed, or to give it back.

A training step frees and allocates the same tens of megabytes repeatedly. glibc returns large blocks to the system and requests them again,
and the system clears every page: a fifth of the time of a step of a perceptron with 21 M parameters. But blocks that are kept leave gaps:
one process with a GPT of 50 M parameters then took 2.0 GB in place of 0.84. Only blocks that are large make such gaps: with those of less
than 8 MiB kept, workers with Zero(3) of it took as much as with those of 1 MiB, those with Zero(1) 0.91 GB in place of 0.76, and a step
of a pipeline of 19 M parameters 0.8 of the time.
"""

from __future__ import annotations

import ctypes
from typing import Any

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
_MOST = 2**31 - 1
_USUAL_BLOCKS = 65536
_LARGE, _KEPT = 8 << 20, 256 << 20


def keep_memory() -> None:
    """From now on this process keeps freed memory for itself; does nothing where the C library is not glibc."""
    _set({_MMAP_MAX: 0, _TRIM_THRESHOLD: _MOST})


def return_memory() -> None:
    """From now on blocks of 8 MiB and more are returned when they are freed; for models that only just fit."""
    _set({_MMAP_MAX: _USUAL_BLOCKS, _MMAP_THRESHOLD: _LARGE, _TRIM_THRESHOLD: _KEPT})
    give_back()


def give_back_after(nbytes: int) -> None:
    """Return what is free now, after `nbytes` of a model were laid out anew.

    Small models leave no large gaps; a thousand of them in one simulation would each have the heap of all looked through.
    """
    if nbytes >= _LARGE:
        give_back()


def give_back() -> None:
    """Return what is free now."""
    trim = _function("malloc_trim")
    if trim is not None:
        trim(0)


def _function(name: str) -> Any:
    """The function of the C library; None where there is no such library, as elsewhere than on Linux."""
    try:
        return getattr(ctypes.CDLL(None), name, None)
    except (OSError, TypeError):
        return None


def _set(options: dict[int, int]) -> None:
    mallopt = _function("mallopt")
    if mallopt is not None:
        for option, value in options.items():
            mallopt(option, value)
