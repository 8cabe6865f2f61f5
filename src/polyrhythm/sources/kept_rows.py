"""Rows that can be read once, kept in an Arrow file while they are read, so that they can be read again."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import Tensor

from polyrhythm.core.columns.arrow import arrow_batch, columns_of_arrow, pyarrow
from polyrhythm.core.columns.columns import columns_of
from polyrhythm.core.protocols.sharded import Rows


class KeptRows:
    """Rows that are kept in a file in `directory`; those that are still `coming` are written there when they are read.

    The file has no name from the beginning, so that nothing of it stays, however the process ends.
    """

    def __init__(self, directory: Path, coming: Iterator[Rows]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=directory, prefix="shard-", suffix=".arrow") as named:
            self._sink, self._source = open(named.name, "wb"), open(named.name, "rb")  # noqa: SIM115
        weakref.finalize(self, _close, self._sink, self._source)
        self._coming = coming
        self._writer: Any = None
        self._batches = 0
        self._samples: type | None = None

    def rest(self) -> Iterator[Rows]:
        """The rows that were not read before; each is written to the file."""
        for rows in self._coming:
            batch = arrow_batch(self._columns(rows))
            if self._writer is None:
                self._writer = pyarrow("pyarrow.ipc").new_stream(self._sink, batch.schema)
            self._writer.write_batch(batch)
            self._batches += 1
            yield rows

    def read(self) -> Iterator[Rows]:
        """The rows that were read before, from the file."""
        if not self._batches:
            return
        self._sink.flush()
        self._source.seek(0)
        stream = pyarrow("pyarrow.ipc").open_stream(self._source)
        for _ in range(self._batches):
            yield self._rows(columns_of_arrow(stream.read_next_batch()))

    def _columns(self, rows: Rows) -> Rows:
        """`rows` with names for their columns, which samples that are tuples or single values do not have."""
        if isinstance(rows, dict):
            return rows
        self._samples = type(rows[0])
        values = [sample if isinstance(sample, (tuple, list)) else (sample,) for sample in rows]
        return columns_of({str(place): list(column) for place, column in enumerate(zip(*values, strict=True))})

    def _rows(self, columns: dict[str, Tensor | list[Any]]) -> Rows:
        if self._samples is None:
            return dict(columns)
        several = issubclass(self._samples, (tuple, list))
        return list(zip(*columns.values(), strict=True)) if several else list(columns["0"])


def _close(*files: Any) -> None:
    for file in files:
        file.close()
