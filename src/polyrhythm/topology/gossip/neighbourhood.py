"""A worker among its neighbours on a graph that does not change."""

from __future__ import annotations

from torch import Tensor

from polyrhythm.core.collectives.broadcast import broadcast
from polyrhythm.core.collectives.tree import Tree
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.protocols.responses import AdoptWeights, Response
from polyrhythm.core.protocols.topology import Agreement, InitialState, WorkerEndpoint
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.gossip.vector_encoder import VectorEncoder
from polyrhythm.topology.graphs.graph import Graph
from polyrhythm.topology.graphs.mixing_weights import MixingWeights, row


class Neighbourhood:
    """`neighbours` by rank, and the `shares` that they have in the mean. The number of an exchange and the sender are its topic."""

    def __init__(self, graph: Graph, weights: MixingWeights, agreement: Agreement, endpoint: WorkerEndpoint) -> None:
        self.group = endpoint.group
        self.port = endpoint.port
        self.neighbours, self.shares = row(graph, weights, self.group)
        self.coded = VectorEncoder(agreement, endpoint)
        self.exchanges = 0
        self.initial: InitialState

    async def establish(self, initial: InitialState) -> Tensor:
        """The weights of worker 0, which all begin with."""
        self.coded.open(initial.model_state.layout)
        self.initial = initial
        return await broadcast(self.port, self.group, initial.agreed(), "init")

    async def swap(self, value: Tensor, clock: int) -> tuple[Tensor, list[Tensor]]:
        """Send `value` (numel,) to all neighbours: what they decode, and what is decoded of theirs, in the order of `neighbours`."""
        number, self.exchanges = self.exchanges, self.exchanges + 1
        encoded = self.coded.encode(value, clock, lambda: self.initial.model_state.weights)
        message = Message(f"{number}.{self.group.rank}", tensors=encoded.packet)
        for rank in self.neighbours:
            await self.port.send(self.group.members[rank], message)
        received = []
        for rank in self.neighbours:
            delivery = await self.port.receive(f"{number}.{rank}", self.group.members[rank])
            assert delivery is not None
            received.append(self.coded.decode(delivery.message.tensors))
        return encoded.sent, received

    async def finish(self) -> Response:
        """The mean of all replicas, over a tree."""
        total = await Tree().reduce(self.port, self.group, self.initial.weights(), "mean")
        return AdoptWeights(total / self.group.size)

    def export(self) -> StateTree:
        return {"exchanges": self.exchanges, "codec": self.coded.state}

    def restore(self, state: StateTree) -> None:
        self.exchanges, self.coded.state = state["exchanges"], state["codec"]

    def take_over(self, state: StateTree, own: bool) -> None:
        """Continue with the codec's state; exchanges are counted anew, among the neighbours of now."""
        self.coded.take_over(state["codec"], own)

    def inherit(self, residual: Tensor) -> None:
        """Add the residual (numel,) of a worker that has left."""
        self.coded.inherit(residual)

    def states(self) -> list[tuple[State, Tensor]]:
        return self.coded.states()
