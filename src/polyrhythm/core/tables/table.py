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
