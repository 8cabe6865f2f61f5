"""Send the first values uncompressed, as a warm-up."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from polyrhythm.codec.identity import Identity
from polyrhythm.core.protocols.codec import Aggregated, Aggregation, Codec, Encoded, packets
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.nested import divide, under, within
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.traits import CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError

_DENSE, _INNER = 0, 1


@dataclass(frozen=True, slots=True)
@checked
class Warmup:
    """Send the first `steps` values as they are, and encode all later ones by `inner` (Seide et al., 2014; Lin et al., 2018).

    A packet begins with a flag that names the codec, so that a receiver need not count; empty tensors keep its width.
    Aggregations need no flag, since all workers are in the same round. State: "rounds", and "inner/…".
    """

    steps: int
    inner: Codec

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise CompositionError(f"Warmup(steps={self.steps}) has no warm-up: give at least 1 step, or use {self.inner} bare.")

    @property
    def traits(self) -> CodecTraits:
        """The inner codec's traits, neither verbatim nor ranged."""
        inner = self.inner.traits
        return replace(inner, verbatim=False, ranged=False, recurs=inner.recurs.after(self.steps))

    @property
    def width(self) -> int:
        """The flag, and as many tensors as the wider codec has."""
        return 1 + max(1, packets(self.inner).width)

    def initial(self, layout: Layout) -> State:
        return {"rounds": torch.zeros((), dtype=torch.int64), **under("inner", self.inner.initial(layout))}

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """The flag, and the packet of the current codec."""
        kind = _DENSE if int(state["rounds"]) < self.steps else _INNER
        codec = (Identity(), packets(self.inner))[kind]
        encoded = codec.encode(value, layout, divide(state, ["inner"])["inner"], context)
        room = (torch.empty(0, dtype=torch.uint8),) * (self.width - 1 - len(encoded.packet))
        packet = (torch.tensor([kind], dtype=torch.uint8), *encoded.packet, *room)
        return Encoded(packet, encoded.sent, _next(state, encoded.state))

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        """The value, decoded by the codec that the flag names."""
        kind, *body = packet
        codec = (Identity(), packets(self.inner))[int(kind)]
        return codec.decode(tuple(body[: codec.width]), layout)

    def aggregate(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
        """The aggregation of the current codec."""
        codec = Identity() if int(state["rounds"]) < self.steps else self.inner
        aggregated = yield from codec.aggregate(value, layout, divide(state, ["inner"])["inner"], context)
        return Aggregated(aggregated.total, aggregated.sent, _next(state, aggregated.state))

    def residual(self, state: State, layout: Layout) -> Tensor:
        return self.inner.residual(divide(state, ["inner"])["inner"], layout)

    def joined(self, state: State, layout: Layout) -> State:
        return within("inner", state, lambda inner: self.inner.joined(inner, layout))

    def inherit(self, state: State, residual: Tensor, layout: Layout) -> State:
        return within("inner", state, lambda inner: self.inner.inherit(inner, residual, layout))


def _next(state: State, inner: State) -> State:
    return {"rounds": state["rounds"] + 1, **under("inner", inner)}
