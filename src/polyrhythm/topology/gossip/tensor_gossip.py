"""Gossip in which each tensor is a separate message, sent as soon as the worker has stepped on it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.protocols.codec import inherited, packets, taken_over
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.merge import mixing
from polyrhythm.core.protocols.offers import Offers
from polyrhythm.core.protocols.responses import AdoptWeights, Response
from polyrhythm.core.protocols.topology import Agreement, InitialState, WorkerEndpoint
from polyrhythm.core.protocols.weights import WeightsView
from polyrhythm.core.tensors import Layout, State
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.gossip.present_members import PresentMembers
from polyrhythm.topology.graphs.graph import Graph


class TensorGossip:
    """A worker's side. `under_way` are the tensors that were sent and not mixed: in which exchange, and the worker's own values.

    Exchanges are counted by the steps that they follow, and each tensor of one has a topic: a fast neighbour's next one waits its turn.
    """

    def __init__(self, graph: Graph, agreement: Agreement, endpoint: WorkerEndpoint) -> None:
        self.graph = graph
        self.codec = packets(agreement.codec)
        self.merge = mixing(agreement.merge)
        self.group = endpoint.group
        self.port = endpoint.port
        self.members = PresentMembers(endpoint)
        self.context = ExchangeContext(self.group, self.port.rng("codec"))
        self.offers = Offers(tensors=self)
        self.layouts: list[Layout] = []
        self.starts: list[int] = []
        self.memory: list[State] = []
        self.exchanges = 0
        self.clock = 0
        self.under_way: dict[int, tuple[int, Tensor]] = {}
        self.weights: WeightsView

    async def establish(self, initial: InitialState) -> Response:
        self.weights, start = initial.model_state, 0
        for layout in initial.model_state.layout.each:
            self.layouts.append(layout)
            self.starts.append(start)
            self.memory.append(self.codec.initial(layout))
            start += layout.numel
        return AdoptWeights(await self.members.establish(initial))

    async def send(self, number: int, value: Tensor, clock: int) -> None:
        if clock != self.clock:
            self.clock = clock
            self.exchanges += 1
        exchange = self.exchanges - 1
        self.under_way[number] = exchange, value
        receivers, _ = self.graph.neighbours(exchange, self.group)
        if receivers:
            encoded = self.codec.encode(value.clone(), self.layouts[number], self.memory[number], self._at(number))
            self.memory[number] = encoded.state
            for rank in receivers:
                await self.port.send(self.group.members[rank], Message(_topic(exchange, number), tensors=encoded.packet))

    async def receive(self, numbers: Sequence[int]) -> list[Tensor]:
        return [await self._mixed(number) for number in numbers]

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        for number, part in reversed([*enumerate(torch.split(value, [layout.numel for layout in self.layouts]))]):
            await self.send(number, part, clock)
        return AdoptWeights(torch.cat(await self.receive(range(len(self.layouts)))))

    async def _mixed(self, number: int) -> Tensor:
        exchange, mine = self.under_way.pop(number)
        _, senders = self.graph.neighbours(exchange, self.group)
        received = await self.members.receive(_topic(exchange, number), [self.group.members[rank] for rank in senders])
        theirs = [self.codec.decode(delivery.message.tensors, self.layouts[number]) for delivery in received]
        return self.merge.mix(mine, theirs, self._at(number)) if theirs else mine

    def _at(self, number: int) -> ExchangeContext:
        return self.context.at(self.clock, lambda: self.weights.weights).range(self.starts[number], self.layouts[number])

    async def finish(self) -> Response:
        return AdoptWeights(await self.members.mean(InitialState(self.weights, "").weights()))

    async def drain(self, step: int) -> str:
        return ""  # all that was sent has been mixed: no tensor is under way between steps

    def export(self) -> StateTree:
        return {"exchanges": self.exchanges, "clock": self.clock, "codec": self.memory}

    def restore(self, state: StateTree) -> None:
        self.exchanges, self.clock, self.memory = state["exchanges"], state["clock"], state["codec"]

    def take_over(self, state: StateTree, own: bool) -> None:
        self.clock, self.memory = state["clock"], taken_over(self.codec, state["codec"], self.layouts, own)

    def inherit(self, residual: Tensor) -> None:
        parts = torch.split(residual, [layout.numel for layout in self.layouts])
        self.memory = inherited(self.codec, self.memory, self.layouts, parts)

    def states(self) -> list[tuple[State, Tensor]]:
        return [(state, self.codec.residual(state, layout)) for state, layout in zip(self.memory, self.layouts, strict=True)]


def _topic(exchange: int, number: int) -> str:
    return f"{exchange}.{number}"
