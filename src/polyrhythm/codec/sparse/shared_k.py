"""Send random elements, the same at all workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.codec.sparse.sparse import check_share, drawn
from polyrhythm.core import rng
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.codec import Aggregated, Aggregation, WithoutResidual
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import AllReduceRequest
from polyrhythm.core.protocols.traits import DIFFERENCES, CodecTraits, Payload
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State


@dataclass(frozen=True, slots=True)
@checked
class SharedK(WithoutResidual):
    """⌈ratio · n⌉ elements drawn uniformly, the same at all workers, in one reduction of their values (SPARTA; Beton et al., 2025).

    They are drawn from the run's seed and a counter, so that no index is sent. Other elements are lost: wrap it,
    ErrorFeedback(SharedK(0.01)); or send weights over AverageWeights(), where they stay as they are. State: "rounds".
    """

    traits: ClassVar = CodecTraits(DIFFERENCES | {Payload.WEIGHTS}, frozenset({Capability.COLLECTIVES}), lossy=True)

    ratio: float

    def __post_init__(self) -> None:
        check_share("SharedK", self.ratio)

    def initial(self, layout: Layout) -> State:
        return {"rounds": torch.zeros((), dtype=torch.int64)}

    def aggregate(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
        """One all-reduce of the drawn elements."""
        draw = rng.stream(context.group.seed, "shared elements", int(state["rounds"]))
        indices = drawn(draw, self.ratio, value.numel())
        mine = value.index_select(0, indices)
        summed: Tensor = yield AllReduceRequest(mine)
        total, sent = (torch.zeros_like(value).index_copy_(0, indices, part) for part in (summed, mine))
        return Aggregated(total, sent, {"rounds": state["rounds"] + 1})


EXAMPLES = (SharedK(0.1),)
