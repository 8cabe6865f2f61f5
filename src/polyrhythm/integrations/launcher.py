"""Hides the launcher's environment variables from a library that would otherwise make a process group from them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_SAID = (
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
    "PMI_RANK", "PMI_SIZE",
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE",
)  # fmt: skip
"""The variables in which launchers say which of how many processes one is."""


@contextmanager
def alone() -> Iterator[None]:
    """A context with the environment of a process that no launcher has started; nothing called in it may wait for a worker."""
    hidden = {name: os.environ.pop(name) for name in _SAID if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)
