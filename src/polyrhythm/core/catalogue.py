"""The framework's only imports of pieces: the defaults of a strategy, and the members proposed where pieces do not fit together.

Every other module of the framework knows pieces by their protocols alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polyrhythm import codec, consistency, controllers, local_rules, merge, topology
from polyrhythm.buffers import MeanBuffers
from polyrhythm.codec import Identity
from polyrhythm.consistency import BulkSynchronous
from polyrhythm.core.protocols.row_kind import RowKind
from polyrhythm.groups import ByHost, BySite, Given, OfSize
from polyrhythm.merge import Mean
from polyrhythm.parameters import Named
from polyrhythm.shuffle import GlobalShuffle
from polyrhythm.tables import DenseRows, Leased, SparseRows
from polyrhythm.topology import AllReduce

CHOICES: Mapping[str, Sequence[Any]] = {
    "consistency": consistency.MEMBERS,
    "topology": [member for member in topology.MEMBERS if member != topology.Alone()],
    "codec": codec.MEMBERS,
    "merge": merge.MEMBERS,
    "local": local_rules.MEMBERS,
    "controller": controllers.MEMBERS,
}
"""The members that an error message proposes instead, by axis: all but `Alone`."""
ROW_KINDS: tuple[type[RowKind], ...] = (DenseRows, SparseRows, Leased)
"""The rows that tables may have: a message names one by its place here."""

__all__ = [
    "CHOICES",
    "ROW_KINDS",
    "AllReduce",
    "BulkSynchronous",
    "ByHost",
    "BySite",
    "DenseRows",
    "Given",
    "GlobalShuffle",
    "Identity",
    "Leased",
    "Mean",
    "MeanBuffers",
    "Named",
    "OfSize",
]
