"""Of each cosine coefficient the mean over the workers that have sent it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from polyrhythm.codec.sparse.cosine_top_k import CosineTopK
from polyrhythm.core.protocols.codec import Aggregated, Aggregation
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import AllGatherRequest, Packet
from polyrhythm.core.protocols.traits import CodecTraits, Pattern
from polyrhythm.core.tensors import Layout, State


@dataclass(frozen=True, slots=True)
class SenderMean:
    """Gather what `inner` sends, and divide the sum of each coefficient by the number of workers that sent it (the authors' code of DeMo).

    What one worker alone has found large enough to send counts in full, and not by a share: before the transform back, so that the signs of
    elements are not those of the sum, where coefficients that different workers have sent overlap.
    """

    inner: CosineTopK

    @property
    def traits(self) -> CodecTraits:
        """As the inner codec's, among workers that gather all packets; its total is no sum."""
        return replace(self.inner.traits, patterns=frozenset({Pattern.COLLECTIVE}), divides=True)

    def initial(self, layout: Layout) -> State:
        """The inner codec's."""
        return self.inner.initial(layout)

    def aggregate(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
        """The packets of all workers, averaged by coefficient and transformed back once."""
        encoded = self.inner.encode(value, layout, state, context)
        packets: list[Packet] = yield AllGatherRequest(encoded.packet)
        return Aggregated(self.inner.decode_mean(packets, layout), encoded.sent, encoded.state)

    def residual(self, state: State, layout: Layout) -> Tensor:
        """The inner codec's."""
        return self.inner.residual(state, layout)
