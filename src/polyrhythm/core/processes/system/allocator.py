"""The C library's allocator, set to keep what is freed.

A training step frees and allocates the same tens of megabytes repeatedly. glibc returns large blocks to the system and
requests them again, and the system clears every page: a fifth of the time of a step of a perceptron with 21 M parameters.
"""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
_MOST = 2**31 - 1


def keep_memory() -> None:
    """From now on this process keeps freed memory for itself; does nothing where the C library is not glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_MAX, 0)
        mallopt(_TRIM_THRESHOLD, _MOST)
