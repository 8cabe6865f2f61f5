"""Send each worker's momentum of the values in place of the values."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from polyrhythm.core.protocols.codec import Aggregated, Aggregation, Codec, Encoded, packets
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.nested import divide, under
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.traits import CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import NO_GRADIENT, Layout, State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class LocalMomentum:
    """m ← β m + (1 - β) g at each worker, and m is what `inner` encodes (Signum; Bernstein et al., 2018, algorithm 2).

    State: "momentum" (numel,), and "inner/…".
    """

    beta: float
    inner: Codec

    def __post_init__(self) -> None:
        if not 0 <= self.beta < 1:
            raise CompositionError(f"LocalMomentum(beta={self.beta}) forgets nothing: give 0 (no momentum) or more, below 1.")

    @property
    def traits(self) -> CodecTraits:
        """The inner codec's traits, with `transforms`: the values that it encodes are not those that were given."""
        return replace(self.inner.traits, transforms=True, verbatim=False)

    @property
    def width(self) -> int:
        return packets(self.inner).width

    def initial(self, layout: Layout) -> State:
        """No momentum yet: NO_GRADIENT, which tensors that never get a gradient keep."""
        return {"momentum": torch.full((layout.numel,), NO_GRADIENT), **under("inner", self.inner.initial(layout))}

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """The inner codec's packet of the momentum."""
        momentum = self._next(value, state)
        encoded = packets(self.inner).encode(momentum, layout, divide(state, ["inner"])["inner"], context)
        return Encoded(encoded.packet, encoded.sent, {"momentum": momentum, **under("inner", encoded.state)})

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        return packets(self.inner).decode(packet, layout)

    def aggregate(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
        """The inner codec's aggregation of the momentum."""
        momentum = self._next(value, state)
        aggregated = yield from self.inner.aggregate(momentum, layout, divide(state, ["inner"])["inner"], context)
        return Aggregated(aggregated.total, aggregated.sent, {"momentum": momentum, **under("inner", aggregated.state)})

    def residual(self, state: State, layout: Layout) -> Tensor:
        return self.inner.residual(divide(state, ["inner"])["inner"], layout)

    def _next(self, value: Tensor, state: State) -> Tensor:
        return self.beta * state["momentum"].to(value) + (1 - self.beta) * value
