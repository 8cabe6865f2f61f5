"""Workers whose contributions are combined by pairs, so that what they agree on counts once and what they do not adds up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from polyrhythm.pieces.merge import Contribution
from polyrhythm.pieces.responses import AdoptWeights, ApplyContributions, Response
from polyrhythm.pieces.topology import Agreement, Channel, InitialState, WorkerEndpoint
from polyrhythm.pieces.traits import DIFFERENCES, Pattern, TopologyTraits
from polyrhythm.tensors import State
from polyrhythm.topology.algorithms.adaptive_sum import AdaptiveSum
from polyrhythm.topology.algorithms.broadcast import broadcast
from polyrhythm.topology.collective_client import CollectiveClient
from polyrhythm.trees import StateTree


@dataclass(frozen=True, slots=True)
class Adasum:
    """Combine g1 and g2 to (1 - g1·g2 / 2 |g1|²) g1 + (1 - g1·g2 / 2 |g2|²) g2, tensor by tensor, recursively (Maleki et al., MLSys 2021).

    Orthogonal contributions are added, equal ones averaged. The result stands for the mean of all: under `Mean()` weights move by it.
    Only codecs whose requests are sums of whole values can be used. Any number of workers; powers of two need the fewest messages.
    """

    traits: ClassVar = TopologyTraits(DIFFERENCES, Pattern.COMBINED)
    service: ClassVar[None] = None

    def workers(self, available: int) -> int:
        """All."""
        return available

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        """A worker's side."""
        return _ByPairs(agreement, endpoint)

    def result_actors(self, members: tuple[str, ...], servers: tuple[str, ...]) -> list[str]:
        """Worker 0, whose weights are those of all."""
        return [members[0]]

    def result(self, weights: Sequence[Tensor]) -> Tensor:
        """As they are."""
        return weights[0]


class _ByPairs:
    buckets = None
    in_place = None
    tensors = None
    writes = None
    late = None
    collective = None

    def __init__(self, agreement: Agreement, endpoint: WorkerEndpoint) -> None:
        self.agreement = agreement
        self.endpoint = endpoint
        self.client: CollectiveClient

    async def establish(self, initial: InitialState) -> Response:
        state, end = initial.model_state, self.endpoint
        self.client = CollectiveClient(AdaptiveSum(state.layout), self.agreement.codec, end)
        self.client.open(state.layout, lambda: state.weights, state)
        return AdoptWeights(await broadcast(end.port, end.group, initial.weights(), "init"))

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        return ApplyContributions([Contribution(await self.client.sum(value, clock), self.endpoint.group.size, rates=rates)])

    async def finish(self) -> Response:
        return ApplyContributions([])

    async def drain(self, step: int) -> str:
        return ""  # every exchange has brought what was sent for it

    def export(self) -> StateTree:
        return self.client.export()

    def restore(self, state: StateTree) -> None:
        self.client.restore(state)

    def states(self) -> list[tuple[State, Tensor]]:
        return self.client.states()
