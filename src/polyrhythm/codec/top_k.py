"""Say only the largest elements."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from polyrhythm.errors import CompositionError
from polyrhythm.pieces.codec import Conversation, Encoded, Speaker, gather_and_sum
from polyrhythm.pieces.questions import Packet
from polyrhythm.pieces.terms import DIFFERENCES, EVERY_MANNER, Manner, Subject
from polyrhythm.tensors import Layout, State


@dataclass(frozen=True, slots=True)
class TopK:
    """The ⌈ratio · n⌉ elements of largest magnitude, each as an int32 index and its value (Aji and Heafield, 2017).

    What is not said is forgotten: wrap it, ErrorFeedback(TopK(0.01)).
    """

    ratio: float

    def __post_init__(self) -> None:
        if not 0 < self.ratio <= 1:
            raise CompositionError(
                f"TopK(ratio={self.ratio}) says nothing or more than all: ratio is a part of the elements, above 0 and at most 1."
            )

    @property
    def carries(self) -> frozenset[Subject]:
        """Differences: the rest of a set of weights is not zero."""
        return DIFFERENCES

    @property
    def manners(self) -> frozenset[Manner]:
        """Any."""
        return EVERY_MANNER

    @property
    def forgets(self) -> bool:
        """The small elements are lost."""
        return True

    @property
    def width(self) -> int:
        """Indices and values."""
        return 2

    def initial(self, layout: Layout) -> State:
        """Nothing to remember."""
        return {}

    def encode(self, value: Tensor, layout: Layout, state: State, draw: np.random.Generator) -> Encoded:
        """Indices in increasing order, so that receivers walk memory forwards."""
        count = math.ceil(self.ratio * value.numel())
        indices = torch.topk(value.abs(), count, sorted=False).indices.sort().values
        packet = (indices.to(torch.int32), value[indices])
        return Encoded(packet, self.decode(packet, layout), state)

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        """Zeros but for what was said."""
        indices, values = packet
        return torch.zeros(layout.numel, dtype=values.dtype, device=values.device).index_copy_(0, indices.long(), values)

    def converse(self, value: Tensor, layout: Layout, state: State, speaker: Speaker) -> Conversation:
        """Everyone's packet, summed."""
        return gather_and_sum(self, value, layout, state, speaker)

    def owed(self, state: State, layout: Layout) -> Tensor:
        """Nothing is kept."""
        return torch.zeros(layout.numel)
