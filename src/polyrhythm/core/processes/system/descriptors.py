"""The number of sockets, and of pieces of memory on their way, that a process may hold."""

from __future__ import annotations

from contextlib import suppress


def allow_many() -> None:
    """Let this process hold as many as its administrator allows; the usual soft limit of 1024 is for programs that call select()."""
    import resource  # here, because this package is imported where there is none, too

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # a sandbox may allow no change; then it stays as it is
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
