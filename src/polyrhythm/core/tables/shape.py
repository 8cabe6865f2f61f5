"""The shape of a table, the kind of its rows, and the rows that each server keeps.

`worker.table` makes it at each worker, and the servers from the `TableOpening` that they get; caches, requests and shards use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from polyrhythm.core.protocols.row_kind import RowKind
from polyrhythm.errors import WorkloadError


@dataclass(frozen=True)
class TableShape:
    """Row r is row r // S of server r % S, of S servers: rows that are often used together, or sorted by use, are spread."""

    rows: int
    columns: int
    kind: RowKind

    def __post_init__(self) -> None:
        for name, count in (("rows", self.rows), ("columns", self.columns)):
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise WorkloadError(f"worker.table was given {name}={count!r}: a table has a whole number of {name}, 1 or more.")

    def __str__(self) -> str:
        return f"{self.rows} rows of {self.columns} columns, {self.kind!r}"

    @cached_property
    def every(self) -> Tensor:
        """The numbers of all rows."""
        return torch.arange(self.rows)

    def kept_by(self, server: int, servers: int) -> Tensor:
        """The rows that one of `servers` servers keeps."""
        return self.every[server::servers]

    def joined(self, parts: Sequence[Tensor]) -> Tensor:
        """The whole table (rows, columns) from the rows of each server, given as dense vectors."""
        whole = parts[0].new_zeros(self.rows, self.columns)
        for k, part in enumerate(parts):
            whole[k :: len(parts)] = part.view(-1, self.columns)
        return whole

    def numbers(self, rows: object) -> Tensor:
        """`rows` as row numbers (n,). Raises WorkloadError for anything else, and for rows that the table does not have."""
        try:
            found = rows if isinstance(rows, Tensor) else torch.as_tensor(rows)
        except (TypeError, ValueError, RuntimeError):
            found = torch.empty(0, 0)
        if not found.numel() and found.dim() == 1:
            return found.long()
        if found.dim() > 1 or found.is_floating_point() or found.is_complex() or found.dtype is torch.bool:
            raise WorkloadError(f"Rows of a table were given as {rows!r}: give a whole number, or a sequence or tensor (n,) of them.")
        found = found.detach().cpu().long().reshape(-1)
        low, high = int(found.min()), int(found.max())
        if low < 0 or high >= self.rows:
            raise WorkloadError(f"Row {low if low < 0 else high} was asked of a table of {self.rows} rows: give 0 to {self.rows - 1}.")
        return found
