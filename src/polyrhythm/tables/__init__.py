"""Tables that the workers of a run share by rows, under the strategy's consistency."""

from polyrhythm.core.protocols.row_kind import RowKind
from polyrhythm.tables.dense_rows import DenseRows
from polyrhythm.tables.sparse_rows import SparseRows

MEMBERS: tuple[RowKind, ...] = (DenseRows(), SparseRows())
"""One of each kind of rows, for the laws that every kind obeys."""

__all__ = ["MEMBERS", "DenseRows", "RowKind", "SparseRows"]
