"""What worker 0 sends the servers to have them keep a table."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

import msgspec
import torch
from torch import Tensor

from polyrhythm.errors import WorkloadError
from polyrhythm.kernel.effects import Effect
from polyrhythm.pieces.consistency import Consistency
from polyrhythm.pieces.topology import ServerEndpoint
from polyrhythm.tables.dense_rows import DenseRows
from polyrhythm.tables.row_kind import RowKind
from polyrhythm.tables.shape import TableShape
from polyrhythm.tables.sparse_rows import SparseRows
from polyrhythm.tables.table_shard import TableShard

KINDS: tuple[type[RowKind], ...] = (DenseRows, SparseRows)


class TableOpening(msgspec.Struct, frozen=True, tag="table"):
    """A table as a value that can be sent; as `pieces.common_state.Opening`. `kind` is the place of its rows' class in KINDS."""

    scope: str
    rows: int
    columns: int
    kind: int
    dtype: str

    @staticmethod
    def of(scope: str, shape: TableShape) -> TableOpening:
        """Raises WorkloadError for rows of a class that servers do not know."""
        if type(shape.kind) not in KINDS:
            known = " or ".join(f"pr.{kind.__name__}()" for kind in KINDS)
            raise WorkloadError(f"worker.table was given row={shape.kind!r}: give {known}.")
        return TableOpening(scope, shape.rows, shape.columns, KINDS.index(type(shape.kind)), str(shape.kind.dtype).removeprefix("torch."))

    def serve(self, consistency: Consistency, endpoint: ServerEndpoint, given: Sequence[Tensor]) -> Coroutine[Effect[Any], Any, None]:
        """A server's part of it; `given` are the rows and their packet with which this part begins, or nothing."""
        kind = KINDS[self.kind](getattr(torch, self.dtype))  # type: ignore[call-arg]
        shape = TableShape(self.rows, self.columns, kind)
        return TableShard(shape, consistency, endpoint).live(tuple(given))
