"""Files written and read by one process: the storage of a machine."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from polyrhythm.tools.studies.grid import Cell, Level, counts, crossed

_BLOCK = 1 << 20


class StorageGrid(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table [storage]: a file of each of `nbytes` is written, synchronized and read in `directory`, by default a temporary one.

    What is read may come from the page cache: it was written just before.
    """

    nbytes: tuple[int, ...] = (1 << 20, 16 << 20)
    directory: str = ""

    @property
    def about(self) -> str:
        """What is measured."""
        return "a file of one process, written until it is on the disk (fsync) and then read, which the page cache may serve; real seconds"

    @property
    def units(self) -> Mapping[str, str]:
        """Rates."""
        return {"written": "bytes/s", "read": "bytes/s"}

    def check(self) -> None:
        """Raise CompositionError for sizes that are none."""
        counts("nbytes", self.nbytes)

    def cells(self) -> list[dict[str, Level]]:
        """One for each size."""
        return crossed({"nbytes": self.nbytes})

    def refused(self, cell: Cell) -> str:
        """Nothing is."""
        return ""

    def decisive(self, cell: Cell) -> Mapping[str, Any]:
        """The size and the place."""
        return {**cell, "directory": self.directory}

    def measure(self, cell: Cell, repetition: int) -> Mapping[str, float]:
        """Bytes per second of one file."""
        nbytes = int(cell["nbytes"])
        block = os.urandom(min(_BLOCK, nbytes))
        with TemporaryDirectory(dir=self.directory or None) as directory:
            file = Path(directory, "file")
            began = time.perf_counter()
            with file.open("wb") as target:
                for begin in range(0, nbytes, len(block)):
                    target.write(block[: nbytes - begin])
                target.flush()
                os.fsync(target.fileno())
            written = time.perf_counter()
            with file.open("rb", buffering=0) as source:
                while source.read(_BLOCK):
                    pass
            return {"written": nbytes / (written - began), "read": nbytes / (time.perf_counter() - written)}
