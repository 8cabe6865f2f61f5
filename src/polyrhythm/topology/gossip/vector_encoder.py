"""The codec of one worker's weights, with its state.

Channels of this package make one each, and encode what they send with it.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from polyrhythm.core.protocols.codec import Encoded, packets, taken_over
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.topology import Agreement, WorkerEndpoint
from polyrhythm.core.tensors import Layout, State


class VectorEncoder:
    """Encodes vectors of one layout, and decodes those of others, for a channel."""

    def __init__(self, agreement: Agreement, endpoint: WorkerEndpoint) -> None:
        self.codec = packets(agreement.codec)
        self.context = ExchangeContext(endpoint.group, endpoint.port.rng("codec"))
        self.looks = not self.codec.traits.verbatim
        """Whether the codec may look at the exchange: one that sends values as they are gets the same context for all."""
        self.layout = Layout((), ())
        self.state: State = {}

    def open(self, layout: Layout) -> None:
        """Start with vectors of `layout`."""
        self.layout, self.state = layout, self.codec.initial(layout)

    def encode(self, value: Tensor, clock: int, weights: Callable[[], Tensor]) -> Encoded:
        """Encode `value` (numel,) after step `clock`; `weights` gives the current ones."""
        context = self.context.at(clock, weights) if self.looks else self.context
        encoded = self.codec.encode(value, self.layout, self.state, context)
        self.state = encoded.state
        return encoded

    def decode(self, packet: Packet) -> Tensor:
        """The value (numel,) of a packet of another worker."""
        return self.codec.decode(packet, self.layout)

    def take_over(self, state: State, own: bool) -> None:
        """Continue with the codec's state, as `Channel.take_over` does."""
        (self.state,) = taken_over(self.codec, [state], [self.layout], own)

    def inherit(self, residual: Tensor) -> None:
        """Add the residual (numel,) of a worker that has left."""
        self.state = self.codec.inherit(self.state, residual, self.layout)

    def states(self) -> list[tuple[State, Tensor]]:
        """The state and its residual, as `Channel.states` has them."""
        return [(self.state, self.codec.residual(self.state, self.layout))] if self.layout.names else []
