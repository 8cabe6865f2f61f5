"""Send only the rows of matrices that are not zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.core.protocols.codec import Aggregation, Encoded, WithoutResidual, gather_and_sum
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.rows import MOST_ROWS, join_rows, row_counts, split_rows
from polyrhythm.core.protocols.traits import CodecTraits, Payload
from polyrhythm.core.tensors import NO_GRADIENT, Layout, State, without_gradient
from polyrhythm.errors import CompositionError

_ABSENT = -1
"""In place of a number of rows: no gradient."""


@dataclass(frozen=True, slots=True)
class TouchedRows(WithoutResidual):
    """The rows that are not zero of each tensor of two or more dimensions, with an int32 index each; other tensors as they are.

    For embeddings, of which a batch touches a few rows; gradients may be sparse (`nn.Embedding(sparse=True)`). Lossless, bit for bit.
    A row is an index of the first dimension. A packet: the numbers of rows, their indices, their values, the other tensors end to end.
    """

    traits: ClassVar = CodecTraits(frozenset({Payload.UPDATE, Payload.ROWS}))
    width: ClassVar = 4
    """Four tensors: numbers of rows, their indices, their values, and the tensors that are sent as they are."""

    def initial(self, layout: Layout) -> State:
        """No state. Raises CompositionError for a tensor of more than 2³¹ rows."""
        if max(row_counts(layout), default=0) > MOST_ROWS:
            raise CompositionError(
                f"TouchedRows names rows by 31 bits, and a tensor has more than {MOST_ROWS:,}: cut it over several servers."
            )
        return {}

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """Rows in increasing order of their index."""
        matrices = [view for view in layout.views(value) if view.dim() > 1]
        absent = without_gradient([matrix.reshape(-1) for matrix in matrices])
        chosen = [
            _not_zero(matrix) if not none else torch.empty(0, dtype=torch.int64) for matrix, none in zip(matrices, absent, strict=True)
        ]
        numbers = [_ABSENT if none else len(rows) for rows, none in zip(chosen, absent, strict=True)]
        packet = (torch.tensor(numbers, dtype=torch.int64), *split_rows(value, layout, chosen))
        return Encoded(packet, value, state)

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        """The rows of the packet, and zeros elsewhere."""
        numbers = packet[0].tolist()
        flat = packet[3].new_zeros(layout.numel)
        for matrix, number in zip((view for view in layout.views(flat) if view.dim() > 1), numbers, strict=True):
            if number == _ABSENT:
                matrix.fill_(NO_GRADIENT)
        join_rows(flat, layout, [max(0, number) for number in numbers], packet[1:])
        return flat

    def aggregate(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
        return gather_and_sum(self, value, layout, state, context)


def _not_zero(matrix: Tensor) -> Tensor:
    """The rows (k,) in which some element is not +0.0; -0.0 counts as not zero."""
    rows = matrix.flatten(1)
    return ((rows != 0) | rows.signbit()).any(dim=1).nonzero().view(-1)
