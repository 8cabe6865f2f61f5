"""Tables that the workers of a run share by rows, under the strategy's consistency."""

from polyrhythm.core.protocols import declared
from polyrhythm.tables.dense_rows import DenseRows as DenseRows
from polyrhythm.tables.sparse_rows import SparseRows as SparseRows
from polyrhythm.tables.leased import Leased as Leased
from polyrhythm.core.protocols.row_kind import RowKind as RowKind

MEMBERS = declared.members(globals())
"""Examples of each piece, in the order in which messages propose them: the laws are tested over this list."""

__all__ = declared.names(globals())
