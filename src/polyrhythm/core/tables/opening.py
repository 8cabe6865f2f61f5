"""The message by which worker 0 has the servers keep a table."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

import msgspec
import torch
from torch import Tensor

from polyrhythm.core.catalogue import ROW_KINDS
from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.protocols.consistency import Consistency
from polyrhythm.core.protocols.topology import ServerEndpoint
from polyrhythm.core.tables.shape import TableShape
from polyrhythm.core.tables.table_shard import TableShard
from polyrhythm.errors import WorkloadError


class TableOpening(msgspec.Struct, frozen=True, tag="table"):
    """A table as an `Opening` that can be sent. `kind` is the index of its rows' class in ROW_KINDS."""

    scope: str
    rows: int
    columns: int
    kind: int
    dtype: str

    @staticmethod
    def of(scope: str, shape: TableShape) -> TableOpening:
        """The opening of a table of `shape`. Raises WorkloadError for rows of a class that servers do not know."""
        if type(shape.kind) not in ROW_KINDS:
            known = " or ".join(f"pr.tables.{kind.__name__}()" for kind in ROW_KINDS)
            raise WorkloadError(f"worker.table was given row={shape.kind!r}: give {known}.")
        return TableOpening(
            scope, shape.rows, shape.columns, ROW_KINDS.index(type(shape.kind)), str(shape.kind.dtype).removeprefix("torch.")
        )

    def serve(self, consistency: Consistency, endpoint: ServerEndpoint, given: Sequence[Tensor]) -> Coroutine[Effect[Any], Any, None]:
        """A server's part of the table; `given` are the initial rows of this part and their packet, or nothing."""
        kind = ROW_KINDS[self.kind](getattr(torch, self.dtype))  # type: ignore[call-arg]
        shape = TableShape(self.rows, self.columns, kind)
        return TableShard(shape, consistency, endpoint).live(tuple(given))
