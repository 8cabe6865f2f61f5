"""Error feedback with decay: values that were not sent are added to the next ones, and fade."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from polyrhythm.codec.feedback.feedback import check_feedback
from polyrhythm.core.protocols.codec import Aggregated, Aggregation, Codec, Encoded, packets
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.nested import divide, under
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.traits import CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class DecayingFeedback:
    """m ← β m + g; `inner` encodes m; m loses what it sends (decoupled momentum; Peng, Quesnelle, Kingma, 2024, algorithm 1).

    ErrorFeedback whose residual is multiplied by `decay` at every value: a momentum, of which only the fast components are sent.
    A part of 1 - `decay` of the residual is lost each time. State: "momentum" (numel,), and "inner/…".
    """

    inner: Codec
    decay: float = 0.999

    def __post_init__(self) -> None:
        check_feedback("DecayingFeedback", self.inner)
        if not 0 <= self.decay < 1:
            raise CompositionError(f"DecayingFeedback(decay={self.decay}) does not decay: give 0 or more, below 1, or use ErrorFeedback.")

    @property
    def traits(self) -> CodecTraits:
        """The inner codec's traits, not lossy: values are kept until they are sent or have faded."""
        return replace(self.inner.traits, lossy=False, transforms=True, verbatim=False, keeps=True)

    @property
    def width(self) -> int:
        return packets(self.inner).width

    def initial(self, layout: Layout) -> State:
        return {"momentum": torch.zeros(layout.numel), **under("inner", self.inner.initial(layout))}

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """The inner codec's packet of the momentum."""
        momentum = self.decay * state["momentum"].to(value) + value
        encoded = packets(self.inner).encode(momentum, layout, divide(state, ["inner"])["inner"], context)
        return Encoded(encoded.packet, encoded.sent, {"momentum": momentum - encoded.sent, **under("inner", encoded.state)})

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        return packets(self.inner).decode(packet, layout)

    def aggregate(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
        """The inner codec's aggregation of the momentum."""
        momentum = self.decay * state["momentum"].to(value) + value
        aggregated = yield from self.inner.aggregate(momentum, layout, divide(state, ["inner"])["inner"], context)
        following = {"momentum": momentum - aggregated.sent, **under("inner", aggregated.state)}
        return Aggregated(aggregated.total, aggregated.sent, following)

    def residual(self, state: State, layout: Layout) -> Tensor:
        """The momentum: the sum of values that were neither sent nor have faded."""
        return state["momentum"]
