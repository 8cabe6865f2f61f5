"""The engine of pieces in C."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor

from polyrhythm.core.shared_memory._pieces import NativePieces as Engine
from polyrhythm.core.shared_memory.engine import CODES, OTHER, Attachment, Disagreement, ReduceSpec


class NativePieces:
    """The engine in C: see `_pieces.c`."""

    def __init__(self, attachment: Attachment) -> None:
        self._attachment = attachment  # keeps the memory mapped
        self._group = Engine(attachment.segment.base.data_ptr(), attachment.rank, attachment.ranks, attachment.chunk, attachment.spins)
        self.lose = self._group.lose

    def gather_pieces(self, own: Sequence[Tensor], places: Sequence[Sequence[Tensor]]) -> None:
        first = next(piece for pieces in places for piece in pieces)
        with self._telling():
            self._group.gather(_places(own), [_places(pieces) for pieces in places], CODES.get(first.dtype, OTHER))

    def scatter_pieces(self, parts: Sequence[Sequence[Tensor]], into: Sequence[Tensor], how: ReduceSpec) -> None:
        first = next(piece for pieces in parts for piece in pieces)
        given = [_places(pieces) for pieces in parts]
        with self._telling():
            self._group.reduce_scatter(given, _places(into), CODES[first.dtype], how.operation, how.divisor)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Tell a disagreement from other ends of a wait."""
        try:
            yield
        except ConnectionAbortedError as problem:
            if self._group.other >= 0:
                raise Disagreement(*problem.args) from None
            raise


def _places(pieces: Iterable[Tensor]) -> list[int]:
    """The address and the length of each."""
    return [number for piece in pieces for number in (piece.data_ptr(), piece.nbytes)]
