"""Workers whose contributions are combined by pairs, so that what they agree on counts once and what they do not adds up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from polyrhythm.pieces.responses import Response
from polyrhythm.pieces.result import FirstWorker
from polyrhythm.pieces.topology import Agreement, Channel, InitialState, WorkerEndpoint
from polyrhythm.pieces.traits import DIFFERENCES, Pattern, TopologyTraits
from polyrhythm.tensors import Layout
from polyrhythm.topology.algorithms.adaptive_sum import AdaptiveSum
from polyrhythm.topology.vector_channel import VectorChannel


@dataclass(frozen=True, slots=True)
class Adasum:
    """Combine g1 and g2 to (1 - g1·g2 / 2 |g1|²) g1 + (1 - g1·g2 / 2 |g2|²) g2, tensor by tensor, recursively (Maleki et al., MLSys 2021).

    Orthogonal contributions are added, equal ones averaged. The result stands for the mean of all: under `Mean()` weights move by it.
    Only codecs whose requests are sums of whole values can be used. Any number of workers; powers of two need the fewest messages.
    """

    traits: ClassVar = TopologyTraits(DIFFERENCES, Pattern.COMBINED)
    service: ClassVar[None] = None
    result: ClassVar = FirstWorker()

    def workers(self, available: int) -> int:
        """All."""
        return available

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        """A worker's side."""
        return _ByPairs(agreement, endpoint)


class _ByPairs(VectorChannel):
    collective = None  # what a codec asks for beside sums has no place in a recursion by pairs

    def __init__(self, agreement: Agreement, endpoint: WorkerEndpoint) -> None:
        super().__init__(agreement, endpoint, AdaptiveSum(Layout((), ())))

    async def establish(self, initial: InitialState) -> Response:
        self.client.reduction = AdaptiveSum(initial.model_state.layout)
        return await super().establish(initial)
