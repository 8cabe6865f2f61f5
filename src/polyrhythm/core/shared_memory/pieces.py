"""Collectives of tensors that lie in pieces, among processes on one host: each rank may give a different number of bytes, or none."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from polyrhythm.core.shared_memory.engine import Attachment, ReduceSpec
from polyrhythm.core.shared_memory.group import SPINS, Operation
from polyrhythm.core.shared_memory.portable import Portable
from polyrhythm.core.shared_memory.segment import SharedSegment

try:
    from polyrhythm.core.shared_memory.native_pieces import NativePieces
except ModuleNotFoundError as missing:
    if missing.name != "polyrhythm.core.shared_memory._pieces":
        raise
    NativePieces = Portable  # type: ignore[misc, assignment]  # no C compiler was at hand at the installation


class PieceMover(Protocol):
    """The engine: its methods raise as those of `Reducer`; pieces are contiguous, on the CPU and of one type."""

    def gather_pieces(self, own: Sequence[Tensor], places: Sequence[Sequence[Tensor]]) -> None:
        """What every rank k has as `own` into `places[k]`."""

    def scatter_pieces(self, parts: Sequence[Sequence[Tensor]], into: Sequence[Tensor], how: ReduceSpec) -> None:
        """The sum over all ranks of what they have as `parts` of this rank, into `into`."""

    def lose(self, rank: int) -> None:
        """Wait for `rank` no longer; from any thread."""


class PieceGroup:
    """Rank `rank` among those who share `segment`, which no `MemoryGroup` uses. All call the same methods in the same order.

    Errors are those of `MemoryGroup`.
    """

    def __init__(self, segment: SharedSegment, rank: int, engine: type[NativePieces] | type[Portable] = NativePieces) -> None:
        self.rank = rank
        self.ranks = segment.ranks
        spins = SPINS if segment.ranks <= len(os.sched_getaffinity(0)) else 0
        self._counts = segment.counts
        self._engine: PieceMover = engine(Attachment(segment, rank, spins))

    def gather(self, own: Sequence[Tensor], places: Sequence[Sequence[Tensor]]) -> None:
        """Write what every rank k has as `own` into the tensors `places[k]`, which are together as long; those of this one may be `own`."""
        if any(piece.numel() for pieces in places for piece in pieces):
            self._engine.gather_pieces(own, places)

    def reduce_scatter(
        self, parts: Sequence[Sequence[Tensor]], into: Sequence[Tensor], divisor: float = 1.0, operation: Operation = Operation.SUM
    ) -> None:
        """Write the sum over all ranks of what they have as `parts` of this one, divided by `divisor`, into the tensors `into`.

        Those have the lengths of `parts[rank]`, and lie elsewhere. Ranks are added up in order, beginning with the next one: as around a
        ring. The type is one of `ADDS`.
        """
        if any(piece.numel() for pieces in parts for piece in pieces):
            self._engine.scatter_pieces(parts, into, ReduceSpec(int(operation), divisor))

    @property
    def moved(self) -> int:
        """A number that changes whenever any rank gets on in a collective; from any thread."""
        return int(self._counts.sum())

    def lose(self, rank: int) -> None:
        """Wait for `rank` no longer, from any thread: a wait for it ends with an error if its contribution has not come."""
        self._engine.lose(rank)
