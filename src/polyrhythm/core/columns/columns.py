"""Columns as tensors: floating-point numbers of 64 bits become float32, whole numbers of up to 32 bits int64, as labels must be.

Unsigned bytes stay, since they are pixels or tokens of a few bits; so do float32, float16, int64 and bool. Text, bytes and what has a
different shape in each row stay lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import default_collate

from polyrhythm.core.protocols.sharded import Rows

_CONVERTED = {
    torch.float64: torch.float32,
    torch.int8: torch.int64,
    torch.int16: torch.int64,
    torch.int32: torch.int64,
}
_WIDE = {np.dtype("uint16"), np.dtype("uint32"), np.dtype("uint64")}


@runtime_checkable
class ArrowArray(Protocol):
    """A batch of columns in Arrow's memory: a RecordBatch of pyarrow, a data frame of polars or pandas."""

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        """The batch as capsules of a schema and an array, by Arrow's PyCapsule interface."""


@runtime_checkable
class ArrowStream(Protocol):
    """A table of columns in Arrow's memory."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The table as a capsule of a stream of batches, by Arrow's PyCapsule interface."""


def columns_of(batch: Any) -> dict[str, Tensor | list[Any]]:
    """The columns of a batch: of a mapping of arrays, a RecordBatch, a table or a data frame."""
    if not isinstance(batch, Mapping):
        from polyrhythm.core.columns.arrow import columns_of_arrow

        return columns_of_arrow(batch)
    return {str(name): column_of(values) for name, values in batch.items()}


def column_of(values: Any) -> Tensor | list[Any]:
    """One column, an entry per row: a tensor where all entries are numbers or arrays of one shape."""
    if isinstance(values, Tensor):
        return narrowed(values)
    array = values if isinstance(values, np.ndarray) else _array(values)
    if array is not None and array.dtype == object:
        array = _array(list(array))
    if array is None or array.dtype.kind not in "biuf":
        return list(values)
    if array.dtype in _WIDE:
        array = array.astype(np.int64)
    if not array.flags.writeable:
        array = array.copy()
    return narrowed(torch.from_numpy(np.ascontiguousarray(array)))


def narrowed(column: Tensor) -> Tensor:
    """`column` in the type that models take."""
    return column.to(_CONVERTED.get(column.dtype, column.dtype))


def collated(rows: Rows) -> Any:
    """A batch for the training function: columns as they are, samples stacked, floating-point numbers as float32."""
    return rows if isinstance(rows, dict) else _narrowed(default_collate(rows))


def _narrowed(batch: Any) -> Any:
    if isinstance(batch, Tensor):
        return narrowed(batch)
    if isinstance(batch, dict):
        return {name: _narrowed(each) for name, each in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*map(_narrowed, batch))
    return [_narrowed(each) for each in batch] if isinstance(batch, (list, tuple)) else batch


def _array(values: Sequence[Any]) -> np.ndarray[Any, Any] | None:
    """`values` as an array, or None where they are no numbers of one shape."""
    first = values[0] if len(values) else None
    if isinstance(first, (str, bytes)) or first is None:
        return None
    try:
        if isinstance(first, (np.ndarray, Tensor)):
            return np.stack([np.asarray(each) for each in values])
        return np.asarray(values)
    except (ValueError, TypeError):
        return None
