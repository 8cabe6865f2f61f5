"""Send only the largest elements, a smaller ratio of them in each stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.codec.sparse.sparse import Entries, SparseCodec, check_share, check_size, spread
from polyrhythm.codec.sparse.top_k import TopK
from polyrhythm.core.protocols.codec import Encoded
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.recurrence import Recurrence
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.traits import DIFFERENCES, CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class TopKWarmup(SparseCodec):
    """TopK with each of `ratios` for `steps` values, the last one for all later values (warm-up training; Lin et al., 2018, section 3.3).

    State: "rounds", the number of values encoded. A packet is that of TopK.
    """

    width: ClassVar = 2
    """The indices, and the values."""

    ratios: tuple[float, ...]
    steps: int

    def __post_init__(self) -> None:
        if not self.ratios or self.steps < 1:
            raise CompositionError(f"{self} has no warm-up: give at least one ratio, and at least 1 step for each.")
        for ratio in self.ratios:
            check_share("TopKWarmup", ratio)

    @property
    def traits(self) -> CodecTraits:
        """Lossy; as ever from the last stage on."""
        return CodecTraits(DIFFERENCES, lossy=True, recurs=Recurrence(self.steps * (len(self.ratios) - 1)))

    def initial(self, layout: Layout) -> State:
        """A count of 0. Raises CompositionError for more than 2³¹ elements."""
        check_size("TopKWarmup", layout)
        return {"rounds": torch.zeros((), dtype=torch.int64)}

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """The packet of TopK with the ratio of the current stage."""
        stage = min(int(state["rounds"]) // self.steps, len(self.ratios) - 1)
        encoded = TopK(self.ratios[stage]).encode(value, layout, {}, context)
        return Encoded(encoded.packet, encoded.sent, {"rounds": state["rounds"] + 1})

    def entries(self, packet: Packet) -> Entries:
        return TopK(self.ratios[-1]).entries(packet)

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        return spread(self.entries(packet), layout)
