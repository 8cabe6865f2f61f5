"""Send elements drawn at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from polyrhythm.codec.sparse.sparse import Entries, as_sent, check_share, check_size, gather_and_add, in_full, share, spread
from polyrhythm.core.protocols.codec import Aggregation, Encoded
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.traits import DIFFERENCES, EVERY_PATTERN, CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State


@dataclass(frozen=True, slots=True)
@checked
class RandomK:
    """⌈ratio · n⌉ elements drawn uniformly without repetition, each as an int32 index and its value (rand_k of Stich et al., 2018).

    Every worker draws its own. The values are sent as they are and not scaled by n / k, so that what is sent is small but
    biased towards zero: wrap it, ErrorFeedback(RandomK(0.01)), for which the paper proves convergence.
    """

    traits: ClassVar = CodecTraits(DIFFERENCES, EVERY_PATTERN, lossy=True)

    ratio: float

    def __post_init__(self) -> None:
        check_share("RandomK", self.ratio)

    @property
    def width(self) -> int:
        """Two tensors: the indices, and the values."""
        return 2

    def initial(self, layout: Layout) -> State:
        """No state. Raises CompositionError for more than 2³¹ elements."""
        check_size("RandomK", layout)
        return {}

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """Indices in increasing order, so that receivers walk memory forwards."""
        numel = value.numel()
        drawn = np.sort(context.draw.choice(numel, share(self.ratio, numel), replace=False, shuffle=False)) if numel else np.arange(0)
        packet = in_full(value, torch.from_numpy(drawn))
        return Encoded(packet, self.decode(packet, layout), state)

    def entries(self, packet: Packet) -> Entries:
        return as_sent(packet)

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        """The elements of the packet, and zeros elsewhere."""
        return spread(as_sent(packet), layout)

    def aggregate(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
        return gather_and_add(self, value, layout, state, context)

    def residual(self, state: State, layout: Layout) -> Tensor:
        return torch.zeros(layout.numel)
