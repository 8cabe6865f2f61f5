"""Vectors in files: memory has the parts that are in use."""

from __future__ import annotations

import mmap
import tempfile

import torch
from torch import Tensor


class MappedVector:
    """A vector (numel,) in a file without a name in `directory`, or in the system's place for such files.

    Addresses never change. What was dropped is in the file, or on its way there in memory that the system can take back, and whoever reads
    it gets it from there.
    """

    def __init__(self, numel: int, dtype: torch.dtype, directory: str | None) -> None:
        nbytes = max(1, numel * dtype.itemsize)
        with tempfile.TemporaryFile(dir=directory) as file:
            file.truncate(nbytes)
            self._map = mmap.mmap(file.fileno(), nbytes)  # keeps the file
        self.values: Tensor = torch.frombuffer(self._map, dtype=dtype, count=numel) if numel else torch.empty(0, dtype=dtype)

    def load(self, start: int, end: int) -> int:
        """Have the bytes from `start` to `end` read; returns their number."""
        if hasattr(mmap, "MADV_WILLNEED"):
            self._map.madvise(mmap.MADV_WILLNEED, start, end - start)
        return end - start

    def drop(self, start: int, end: int) -> None:
        """Take these bytes out of memory; `start` is that of a page."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED, start, end - start)
