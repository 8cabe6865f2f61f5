"""Shared memory whose size is settled, so that a reader can rely on it being there."""

from __future__ import annotations


def seal(descriptor: int) -> None:
    """From now on the memory behind `descriptor` keeps its size."""
    import fcntl  # here, because this package is imported where there is none, too

    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)


def is_sealed(descriptor: int) -> bool:
    """True if the memory behind `descriptor` keeps its size; raises OSError if it is not such memory."""
    import fcntl

    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
    return fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & seals == seals
