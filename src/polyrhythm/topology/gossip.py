"""Gossip: every worker meets a few others, and weights spread."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from polyrhythm.kernel.effects import Effect
from polyrhythm.kernel.message import Message
from polyrhythm.kernel.names import worker
from polyrhythm.pieces.answers import Adopt, Answer, Mix
from polyrhythm.pieces.terms import Manner, Subject
from polyrhythm.pieces.topology import Channel, Opening, ServerEndpoint, Terms, WorkerEndpoint
from polyrhythm.tensors import Layout, State
from polyrhythm.topology.broadcast import broadcast
from polyrhythm.topology.graph import Dissemination, Graph
from polyrhythm.topology.tree import Tree


@dataclass(frozen=True, slots=True)
class Gossip:
    """At exchange t each worker sends its weights to those whom `graph` names, and mixes in those that it hears from others.

    The run ends with the mean of all replicas, over a tree.
    """

    graph: Graph = field(default_factory=Dissemination)

    @property
    def accepts(self) -> frozenset[Subject]:
        """Weights: replicas differ, so a difference to one's own would mean nothing to another."""
        return frozenset({Subject.WEIGHTS})

    @property
    def manner(self) -> Manner:
        """With neighbours."""
        return Manner.NEIGHBOURS

    def workers(self, available: int) -> int:
        """All, if the graph has room for them."""
        self.graph.check(available)
        return available

    def servers(self, workers: int) -> int:
        """None."""
        return 0

    def channel(self, terms: Terms, endpoint: WorkerEndpoint) -> Channel:
        """A worker's side."""
        return _Neighbour(self.graph, terms, endpoint)

    def serve(self, terms: Terms, endpoint: ServerEndpoint) -> Coroutine[Effect[Any], Any, None]:
        """There is no server."""
        raise NotImplementedError("Gossip has no server")

    def witnesses(self, workers: int) -> list[str]:
        """All workers."""
        return [worker(rank) for rank in range(workers)]

    def result(self, weights: Sequence[Tensor]) -> Tensor:
        """Their mean."""
        return torch.stack(list(weights)).mean(dim=0)


class _Neighbour:
    """Exchanges are numbered, and the number is the topic: a fast neighbour's next one waits its turn."""

    buckets = None
    in_place = None

    def __init__(self, graph: Graph, terms: Terms, endpoint: WorkerEndpoint) -> None:
        self.graph = graph
        self.codec = terms.codec
        self.group = endpoint.group
        self.port = endpoint.port
        self.draw = self.port.rng("codec")
        self.layout: Layout
        self.state: State
        self.exchanges = 0
        self.opening: Opening

    async def establish(self, opening: Opening) -> Answer:
        self.layout = opening.holder.layout
        self.state = self.codec.initial(self.layout)
        self.opening = opening
        return Adopt(await broadcast(self.port, self.group, opening.weights(), "init"))

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Answer:
        receivers, senders = self.graph.meets(self.exchanges, self.group)
        topic = str(self.exchanges)
        self.exchanges += 1
        if receivers:
            encoded = self.codec.encode(value.clone(), self.layout, self.state, self.draw)
            self.state = encoded.state
            for rank in receivers:
                await self.port.send(self.group.members[rank], Message(topic, tensors=encoded.packet))
        heard = []
        for rank in senders:
            delivery = await self.port.receive(topic, self.group.members[rank])
            assert delivery is not None
            heard.append(self.codec.decode(delivery.message.tensors, self.layout))
        return Mix(heard)

    async def finish(self) -> Answer:
        total = await Tree().reduce(self.port, self.group, self.opening.weights(), "mean")
        return Adopt(total / self.group.size)

    def states(self) -> list[tuple[State, Tensor]]:
        return [(self.state, self.codec.owed(self.state, self.layout))]
