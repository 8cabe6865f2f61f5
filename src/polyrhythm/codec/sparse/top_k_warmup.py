"""Send only the largest elements, and fewer of them from one stage to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.codec.sparse.sparse import Entries, as_sent, check_share, check_size, gather_and_add, spread
from polyrhythm.codec.sparse.top_k import TopK
from polyrhythm.core.protocols.codec import Aggregation, Encoded
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.traits import DIFFERENCES, EVERY_PATTERN, CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class TopKWarmup:
    """TopK of each of `ratios` for `steps` values, then of the last for ever (warm-up training; Lin et al., 2018, section 3.3).

    State: "rounds", how many values were encoded. A packet is that of TopK.
    """

    traits: ClassVar = CodecTraits(DIFFERENCES, EVERY_PATTERN, lossy=True)

    ratios: tuple[float, ...]
    steps: int

    def __post_init__(self) -> None:
        if not self.ratios or self.steps < 1:
            raise CompositionError(f"{self} has no warm-up: give at least one ratio, and at least 1 step for each.")
        for ratio in self.ratios:
            check_share("TopKWarmup", ratio)

    @property
    def width(self) -> int:
        """Indices and values."""
        return 2

    def initial(self, layout: Layout) -> State:
        """No value yet. Raises CompositionError for more than 2³¹ elements."""
        check_size("TopKWarmup", layout)
        return {"rounds": torch.zeros((), dtype=torch.int64)}

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """As TopK of the stage."""
        stage = min(int(state["rounds"]) // self.steps, len(self.ratios) - 1)
        encoded = TopK(self.ratios[stage]).encode(value, layout, {}, context)
        return Encoded(encoded.packet, encoded.sent, {"rounds": state["rounds"] + 1})

    def entries(self, packet: Packet) -> Entries:
        """The elements of a packet."""
        return as_sent(packet)

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        """Zeros but for what was sent."""
        return spread(as_sent(packet), layout)

    def aggregate(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
        """The packets of all workers, summed."""
        return gather_and_add(self, value, layout, state, context)

    def residual(self, state: State, layout: Layout) -> Tensor:
        """Nothing is kept."""
        return torch.zeros(layout.numel)
