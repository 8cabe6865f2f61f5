"""Gossip: every worker exchanges with a few others, and weights spread."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.protocols.local import PlainSteps
from polyrhythm.core.protocols.offers import NOTHING
from polyrhythm.core.protocols.responses import AdoptWeights, MixWeights, Response
from polyrhythm.core.protocols.result_source import AllWorkers
from polyrhythm.core.protocols.topology import Agreement, Channel, InitialState, WorkerEndpoint
from polyrhythm.core.protocols.traits import Payload, TopologyTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.families import NEIGHBOURS
from polyrhythm.topology.gossip.present_members import PresentMembers
from polyrhythm.topology.gossip.tensor_gossip import TensorGossip
from polyrhythm.topology.gossip.vector_encoder import VectorEncoder
from polyrhythm.topology.graphs.graph import Dissemination, Graph


@dataclass(frozen=True, slots=True)
@checked
class Gossip:
    """At exchange t each worker sends its weights to those whom `graph` names, and mixes in those that it receives from others.

    A worker that waits for a lost one continues without it. The run ends with the mean of all replicas, over a tree.
    """

    traits: ClassVar = TopologyTraits(frozenset({Payload.WEIGHTS}), "with neighbours", NEIGHBOURS, tolerates_loss=True)
    service: ClassVar[None] = None
    result: ClassVar = AllWorkers()

    graph: Graph = field(default_factory=Dissemination)

    def workers(self, available: int) -> int:
        """All, if the graph has room for them."""
        self.graph.check(available)
        return available

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        return _Neighbour(self.graph, agreement, endpoint)

    def deferred(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        """A channel that exchanges tensor by tensor; with a rule for local steps, which looks at whole steps, the one of `channel`."""
        if agreement.local != PlainSteps():
            return self.channel(agreement, endpoint)
        return TensorGossip(self.graph, agreement, endpoint)


class _Neighbour:
    """Exchanges are numbered, and the number is the topic: a fast neighbour's next one waits its turn."""

    offers = NOTHING

    def __init__(self, graph: Graph, agreement: Agreement, endpoint: WorkerEndpoint) -> None:
        self.graph = graph
        self.coded = VectorEncoder(agreement, endpoint)
        self.group = endpoint.group
        self.port = endpoint.port
        self.members = PresentMembers(endpoint)
        self.exchanges = 0
        self.initial: InitialState

    async def establish(self, initial: InitialState) -> Response:
        self.coded.open(initial.model_state.layout)
        self.initial = initial
        return AdoptWeights(await self.members.establish(initial))

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        receivers, senders = self.graph.neighbours(self.exchanges, self.group)
        topic = str(self.exchanges)
        self.exchanges += 1
        if receivers:
            encoded = self.coded.encode(value.clone(), clock, self._weights)
            for rank in receivers:
                await self.port.send(self.group.members[rank], Message(topic, tensors=encoded.packet))
        received = await self.members.receive(topic, [self.group.members[rank] for rank in senders])
        return MixWeights([self.coded.decode(delivery.message.tensors) for delivery in received])

    def _weights(self) -> Tensor:
        return self.initial.model_state.weights

    async def finish(self) -> Response:
        return AdoptWeights(await self.members.mean(self.initial.weights()))

    async def drain(self, step: int) -> str:
        return ""  # every exchange has brought what was sent for it

    def export(self) -> StateTree:
        return {"exchanges": self.exchanges, "codec": self.coded.state}

    def restore(self, state: StateTree) -> None:
        self.exchanges, self.coded.state = state["exchanges"], state["codec"]

    def take_over(self, state: StateTree, own: bool) -> None:
        self.coded.take_over(state["codec"], own)

    def inherit(self, residual: Tensor) -> None:
        self.coded.inherit(residual)

    def states(self) -> list[tuple[State, Tensor]]:
        return self.coded.states()
