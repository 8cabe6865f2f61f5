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
from polyrhythm.core.protocols.row_kind import RowKind
from polyrhythm.core.protocols.topology import ServerEndpoint
from polyrhythm.core.tables.shape import TableShape
from polyrhythm.core.tables.table_shard import TableShard
from polyrhythm.errors import WorkloadError


class TableOpening(msgspec.Struct, frozen=True, tag="table"):
    """A table as an `Opening` that can be sent. `kinds` are the indices in ROW_KINDS of its rows' classes, from the outermost inwards."""

    scope: str
    rows: int
    columns: int
    kinds: tuple[int, ...]
    dtype: str

    @staticmethod
    def of(scope: str, shape: TableShape) -> TableOpening:
        """The opening of a table of `shape`. Raises WorkloadError for rows of a class that servers do not know."""
        kinds: list[int] = []
        kind: RowKind | None = shape.kind
        while kind is not None:
            if type(kind) not in ROW_KINDS:
                known = " or ".join(f"pr.tables.{each.__name__}()" for each in ROW_KINDS)
                raise WorkloadError(f"worker.table was given row={shape.kind!r}: give {known}.")
            kinds.append(ROW_KINDS.index(type(kind)))
            kind = kind.inner
        return TableOpening(scope, shape.rows, shape.columns, tuple(kinds), str(shape.kind.dtype).removeprefix("torch."))

    def serve(self, consistency: Consistency, endpoint: ServerEndpoint, given: Sequence[Tensor]) -> Coroutine[Effect[Any], Any, None]:
        """A server's part of the table; `given` are the initial rows of this part and their packet, or nothing."""
        kind: Any = getattr(torch, self.dtype)  # the innermost kind of rows is made of it, the others each of another
        for index in reversed(self.kinds):
            kind = ROW_KINDS[index](kind)  # type: ignore[call-arg]
        shape = TableShape(self.rows, self.columns, kind)
        return TableShard(shape, consistency, endpoint).live(tuple(given))
