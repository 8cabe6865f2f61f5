"""All workers average their weights, or the part of them that the codec sends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from polyrhythm.core.collectives.broadcast import broadcast
from polyrhythm.core.collectives.tree import Tree
from polyrhythm.core.protocols.algorithm import Algorithm
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.merge import Contribution
from polyrhythm.core.protocols.offers import Offers
from polyrhythm.core.protocols.responses import AdoptWeights, ReplaceSent, Response
from polyrhythm.core.protocols.result_source import AllWorkers
from polyrhythm.core.protocols.topology import Agreement, Channel, InitialState, WorkerEndpoint
from polyrhythm.core.protocols.traits import Payload, TopologyTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.collective.algorithms.native_first import NativeFirst
from polyrhythm.topology.collective.algorithms.ring import Ring
from polyrhythm.topology.collective.collective_client import CollectiveClient
from polyrhythm.topology.families import COLLECTIVE


@dataclass(frozen=True, slots=True)
@checked
class AverageWeights:
    """Each worker steps by itself, and the mean of what all send of their weights takes the place of what it has sent (Beton et al., 2025).

    What the codec leaves out stays as it is at each worker, so that replicas differ, by what their own steps have done since an element was
    last averaged. The run ends with the mean of all replicas, over a tree. With Identity() all weights are averaged, as LocalSteps over
    AllReduce() does; AllReduce() itself would drop at home what it does not send.
    """

    traits: ClassVar = TopologyTraits(frozenset({Payload.WEIGHTS}), "collectively", COLLECTIVE, frozenset({Capability.TOTALS}))
    service: ClassVar[None] = None
    result: ClassVar = AllWorkers()

    algorithm: Algorithm = field(default_factory=Ring)

    def workers(self, available: int) -> int:
        return available

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        return _Averaging(CollectiveClient(NativeFirst(self.algorithm), agreement.codec, endpoint), endpoint)


class _Averaging:
    """One worker in one group with all others."""

    def __init__(self, client: CollectiveClient, endpoint: WorkerEndpoint) -> None:
        self.client = client
        self.group = endpoint.group
        self.port = endpoint.port
        self.offers = Offers(collective=client if self.group.size > 1 else None)
        self.initial: InitialState

    async def establish(self, initial: InitialState) -> Response:
        self.initial = initial
        self.client.open(initial.model_state.layout, lambda: initial.model_state.weights, initial.model_state)
        return AdoptWeights(await broadcast(self.port, self.group, initial.agreed(), "init"))

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        aggregated = await self.client.aggregate(value.clone(), clock)  # `value` are the weights, which will be written to
        return ReplaceSent(aggregated.sent, Contribution(aggregated.total, self.group.size, rates=rates))

    async def finish(self) -> Response:
        total = await Tree().reduce(self.port, self.group, self.initial.weights(), "mean")
        return AdoptWeights(total / self.group.size)

    async def drain(self, step: int) -> str:
        return ""  # every exchange has brought what was sent for it

    def export(self) -> StateTree:
        return self.client.export()

    def restore(self, state: StateTree) -> None:
        self.client.restore(state)

    def take_over(self, state: StateTree, own: bool) -> None:
        self.client.take_over(state, own)

    def inherit(self, residual: Tensor) -> None:
        self.client.inherit(residual)

    def states(self) -> list[tuple[State, Tensor]]:
        return self.client.states()
