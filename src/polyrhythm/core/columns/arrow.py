"""Columns in Arrow's memory as tensors, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from polyrhythm.core.columns.columns import ArrowArray, ArrowStream, column_of
from polyrhythm.core.extras import needed
from polyrhythm.core.protocols.sharded import Rows
from polyrhythm.errors import DataError


def pyarrow(module: str = "pyarrow") -> Any:
    """The pyarrow module of that name. Raises CompositionError where it is not installed."""
    return needed(module, "parquet")


def columns_of_arrow(batch: Any) -> dict[str, Tensor | list[Any]]:
    """The columns of a batch or table that offers Arrow's PyCapsule interface. Raises DataError for another object."""
    arrow = pyarrow()
    if isinstance(batch, ArrowStream):
        table = arrow.table(batch)
    elif isinstance(batch, ArrowArray):
        table = arrow.Table.from_batches([arrow.record_batch(batch)])
    else:
        raise DataError(
            f"A {type(batch).__name__} is no batch of columns: give a dict of arrays, a RecordBatch, an Arrow table or a data frame."
        )
    return {name: _column(table.column(name).combine_chunks(), name) for name in table.column_names}


def _column(array: Any, name: str) -> Tensor | list[Any]:
    types = pyarrow("pyarrow.types")
    if types.is_floating(array.type) or types.is_integer(array.type) or types.is_boolean(array.type):
        if array.null_count and not types.is_floating(array.type):
            raise DataError(
                f"{array.null_count} of {len(array)} rows have no value in the column {name!r}, which has whole numbers: fill them, or "
                "leave the column out with columns=[...]."
            )
        return column_of(array.to_numpy(zero_copy_only=False))
    if types.is_list(array.type) or types.is_large_list(array.type) or types.is_fixed_size_list(array.type):
        return _lists(array, name)
    return list(array.to_pylist())


def _lists(array: Any, name: str) -> Tensor | list[Any]:
    """A tensor of rows where all lists are equally long, otherwise a list of tensors."""
    if array.null_count:
        return list(array.to_pylist())
    flat = _column(array.flatten(), name)
    lengths = np.asarray(pyarrow("pyarrow.compute").list_value_length(array).to_numpy(zero_copy_only=False))
    if not isinstance(flat, Tensor) or len(lengths) == 0:
        return list(array.to_pylist())
    if (lengths == lengths[0]).all():
        return flat.reshape(len(array), int(lengths[0]), *flat.shape[1:])
    return list(torch.split(flat, lengths.tolist()))


def arrow_batch(rows: Rows) -> Any:
    """Columns as a RecordBatch, for a file."""
    arrow = pyarrow()
    assert isinstance(rows, dict)
    return arrow.record_batch({name: _values(column) for name, column in rows.items()})


def _values(column: Tensor | list[Any]) -> Any:
    arrow = pyarrow()
    if not isinstance(column, Tensor):
        return arrow.array([entry.numpy() if isinstance(entry, Tensor) else entry for entry in column])
    values = arrow.array(column.reshape(-1).numpy())
    for size in reversed(column.shape[1:]):
        values = arrow.FixedSizeListArray.from_arrays(values, size)
    return values
