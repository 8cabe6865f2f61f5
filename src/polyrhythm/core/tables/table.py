"""The table that `worker.table` returns to the training function.

It checks what the user gives, and leaves the reads, the updates and the clock to a `TableState`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from polyrhythm.core.tables.table_state import TableState
from polyrhythm.errors import WorkloadError


class Table:
    """Rows of numbers that all workers of a run read and add to (Petuum; Ho et al., NIPS 2013; Xing et al., KDD 2015).

    A period lies between two calls of `clock`. After c periods a worker reads all updates of every worker's first c - s, for
    the slack s of the strategy's consistency; perhaps more, and always all of the worker's updates. Until these have come, `get`
    waits.
    """

    def __init__(self, state: TableState, stepping: Callable[[], None]) -> None:
        self._state = state
        self._stepping = stepping

    def __repr__(self) -> str:
        return f"<Table {self.name!r}: {self._state.shape}>"

    @property
    def name(self) -> str:
        """The name given to `worker.table`."""
        return self._state.name

    @property
    def rows(self) -> int:
        """The number of rows of the table."""
        return self._state.shape.rows

    @property
    def columns(self) -> int:
        """The number of columns of each row."""
        return self._state.shape.columns

    @property
    def servers(self) -> int:
        """The number of servers: row r is kept by server r modulo it, and what one period adds to a server's rows comes there at once."""
        return len(self._state.crew.servers)

    @property
    def clocks(self) -> int:
        """The number of calls of `clock` at this worker."""
        return self._state.clock

    def get(self, rows: int | Sequence[int] | Tensor | None = None) -> Tensor:
        """The rows (n, columns) of these numbers, in this order, in new memory; without any, the whole table.

        A single number gives a row (columns,). Sparse rows come as a sparse tensor. Raises WorkloadError for rows that it does not have.
        """
        if rows is None:
            return self._state.get(self._state.shape.every)
        found = self._state.get(self._state.shape.numbers(rows))
        return found[0] if _is_single(rows) else found

    def inc(self, rows: int | Sequence[int] | Tensor | None, values: Tensor | float) -> None:
        """Add `values` (n, columns), dense or sparse, to these rows; a row that is given twice is added to twice. None: to all rows.

        What has fewer dimensions is expanded: (columns,) is added to each row, a number to each element. Raises WorkloadError for rows or
        values that do not fit.
        """
        numbers = self._state.shape.every if rows is None else self._state.shape.numbers(rows)
        given = _as_tensor(values)
        if given.dim() < 2:
            if given.dim() == 1 and len(given) != self.columns:
                raise WorkloadError(
                    f"{len(given)} values were given for rows of {self.columns} columns: give a tensor (n, {self.columns})."
                )
            given = given.expand(len(numbers), self.columns)
        self._state.inc(numbers, given)

    def adopt(self, rows: Sequence[int] | Tensor, values: Tensor) -> Tensor:
        """Take over, of rows that are `pr.tables.Leased`, what no worker has: as near as possible to `values` (n, columns).

        Returns what this worker gets (n, columns): of each row as many units as `values` has, or as many as there are; those of
        `values` where these are there, else others in proportion. The content of the table stays the same. Raises WorkloadError for
        other kinds of rows, for values below 0, and for a row that is given twice.
        """
        numbers, given = self._leased("adopt", rows, values)
        if len(numbers.unique()) < len(numbers) or bool((given < 0).any()):  # type: ignore[no-untyped-call]
            raise WorkloadError(
                f"adopt was called on the table {self.name!r} with a row given twice, or values below 0: give each row once."
            )
        return self._state.adopt(numbers, given)

    def release(self, rows: Sequence[int] | Tensor, values: Tensor) -> None:
        """Give up `values` (n, columns) of what this worker has added to these leased rows or adopted: others may adopt it.

        It is sent by the next `clock`, with what is added until then. Raises WorkloadError for other kinds of rows.
        """
        self._state.release(*self._leased("release", rows, values))

    def _leased(self, call: str, rows: Sequence[int] | Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        kind = self._state.shape.kind
        if not kind.leased:
            raise WorkloadError(
                f"{call} was called on the table {self.name!r} of {kind!r}, whose content is nobody's: open it with "
                "row=pr.tables.Leased(pr.tables.DenseRows(torch.int64))."
            )
        numbers = self._state.shape.numbers(rows)
        if len(values) != len(numbers):
            raise WorkloadError(f"{len(values)} rows of values were given for {len(numbers)} rows of the table: give as many of each.")
        return numbers, values

    def clock(self) -> None:
        """End a period: send its updates, and return without waiting."""
        self._stepping()


def _as_tensor(values: object) -> Tensor:
    try:
        return values if isinstance(values, Tensor) else torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        raise WorkloadError(f"{values!r} was given to add to rows of a table: give a tensor, numbers, or one number.") from None


def _is_single(rows: object) -> bool:
    return isinstance(rows, int) or (isinstance(rows, Tensor) and rows.dim() == 0)
