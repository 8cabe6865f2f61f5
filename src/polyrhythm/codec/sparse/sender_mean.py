"""The mean of each cosine coefficient over the workers that sent it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from polyrhythm.codec.sparse.cosine_top_k import CosineTopK
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.codec import Aggregated, Aggregation, WithoutResidual
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import AllGatherRequest, Packet
from polyrhythm.core.protocols.traits import CodecTraits
from polyrhythm.core.tensors import Layout, State


@dataclass(frozen=True, slots=True)
class SenderMean(WithoutResidual):
    """Gather the packets of `inner`, and divide the sum of each coefficient by the number of workers that sent it (as in DeMo's code).

    A coefficient that one worker alone sent counts in full, not by 1 / P. The division comes before the transform back, so that where
    the coefficients of different workers overlap, the signs of elements differ from those of the sum.
    """

    inner: CosineTopK

    @property
    def traits(self) -> CodecTraits:
        """The inner codec's traits, for collectives only; the total is no sum."""
        return replace(self.inner.traits, requires=frozenset({Capability.COLLECTIVES}), divides=True)

    def initial(self, layout: Layout) -> State:
        return self.inner.initial(layout)

    def aggregate(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
        """The packets of all workers, averaged by coefficient and transformed back once."""
        encoded = self.inner.encode(value, layout, state, context)
        packets: list[Packet] = yield AllGatherRequest(encoded.packet)
        return Aggregated(self.inner.decode_mean(packets, layout), encoded.sent, encoded.state)
