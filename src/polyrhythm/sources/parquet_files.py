"""Parquet files, of which each worker reads its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from glob import glob
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from polyrhythm.core import rng
from polyrhythm.core.columns.arrow import columns_of_arrow, pyarrow
from polyrhythm.core.columns.columns import collated
from polyrhythm.core.protocols.sharded import Rows, ShardRequest
from polyrhythm.core.settings import checked
from polyrhythm.errors import DataError
from polyrhythm.shuffle.rows import part


@dataclass(frozen=True)
@checked
class ParquetFiles:
    """The rows of Parquet files: a directory, a pattern, a file, or a list of them, which every host can read.

    A batch is a dict of the `columns` (all by default) as tensors. With `shuffle`, row groups come in a new order each epoch, and so do the
    rows within each; rows of different groups are not mixed, so write groups of some thousand rows in random order where that matters. A
    worker reads only the row groups that its rows are in.
    """

    paths: str | Path | Sequence[str | Path]
    columns: Sequence[str] | None = None
    shuffle: bool = True
    drop_last: bool = False
    repeats: ClassVar[bool] = True

    @cached_property
    def groups(self) -> list[tuple[str, int, int]]:
        """The row groups in the order of files: path, number in the file, rows. Raises DataError for paths without Parquet files."""
        parquet = pyarrow("pyarrow.parquet")
        found = []
        for path in self._files():
            try:
                metadata = parquet.read_metadata(path)
            except (OSError, pyarrow().ArrowException) as problem:
                raise DataError(f"{path} cannot be read as Parquet: {problem}. Give paths of Parquet files.") from problem
            found += [(path, number, metadata.row_group(number).num_rows) for number in range(metadata.num_row_groups)]
        return found

    @cached_property
    def samples(self) -> int:
        """The number of rows in all files."""
        return sum(rows for _, _, rows in self.groups)

    def shard(self, request: ShardRequest) -> Iterator[Rows]:
        """A contiguous part of the order of the epoch, row group by row group."""
        share, rest = divmod(self.samples, request.workers)
        start = request.rank * share + min(request.rank, rest)
        stop, start = start + share + (request.rank < rest), start + request.skip
        before = 0
        for number in self._order(request):
            path, group, rows = self.groups[number]
            begin, end = max(start - before, 0), min(stop - before, rows)
            before += rows
            if begin < end:
                yield self._read(path, group, begin, end, self._permutation(request, number, rows))

    def batch(self, rows: Rows) -> Any:
        """The rows as a dict of columns."""
        return collated(rows)

    def _order(self, request: ShardRequest) -> Sequence[int]:
        count = len(self.groups)
        return rng.stream(request.seed, "groups", request.epoch).permutation(count).tolist() if self.shuffle else range(count)

    def _permutation(self, request: ShardRequest, number: int, rows: int) -> np.ndarray[Any, Any] | None:
        """The order of the rows in a group: the same at every worker that has some of them."""
        return rng.stream(request.seed, "rows", request.epoch, number).permutation(rows) if self.shuffle else None

    def _read(self, path: str, group: int, begin: int, end: int, order: np.ndarray[Any, Any] | None) -> Rows:
        with pyarrow("pyarrow.parquet").ParquetFile(path) as file:
            missing = sorted(set(self.columns or ()) - set(file.schema_arrow.names))
            if missing:
                raise DataError(f"{path} has no column {missing[0]!r}: it has {', '.join(file.schema_arrow.names)}.")
            table = file.read_row_group(group, columns=None if self.columns is None else list(self.columns))
        rows: Rows = columns_of_arrow(table)
        if order is None:
            return part(rows, begin, end)
        chosen = torch.from_numpy(order[begin:end].copy())
        assert isinstance(rows, dict)
        return {name: [column[k] for k in chosen.tolist()] if isinstance(column, list) else column[chosen] for name, column in rows.items()}

    def _files(self) -> list[str]:
        given = [self.paths] if isinstance(self.paths, (str, Path)) else list(self.paths)
        found: list[str] = []
        for each in given:
            path = Path(each)
            matches = [str(file) for file in path.rglob("*.parquet")] if path.is_dir() else glob(str(each))
            if not matches:
                raise DataError(f"{each} has no Parquet files: give a directory of *.parquet, a pattern or a file that this host can read.")
            found += sorted(matches)
        return found
