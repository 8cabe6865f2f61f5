"""No compression: every value is sent as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from polyrhythm.core.protocols.codec import Aggregated, Aggregation, Encoded, WithoutResidual
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import AllReduceRequest, Packet
from polyrhythm.core.protocols.traits import EVERY_PAYLOAD, CodecTraits, Payload
from polyrhythm.core.tensors import Layout, State


@dataclass(frozen=True, slots=True)
class Identity(WithoutResidual):
    """Every element in the model's own precision."""

    traits: ClassVar = CodecTraits(EVERY_PAYLOAD | {Payload.NOTHING}, frozenset(), verbatim=True)
    width: ClassVar = 1
    """One tensor: the values."""

    def initial(self, layout: Layout) -> State:
        return {}

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        return Encoded((value,), value, state)

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        return packet[0]

    def aggregate(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
        """One all-reduce of the value."""
        total: Tensor = yield AllReduceRequest(value)
        return Aggregated(total, value, state)
