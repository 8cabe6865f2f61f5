"""A worker's side of sums that are made tensor by tensor, in any order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from polyrhythm.core.collectives.broadcast import broadcast
from polyrhythm.core.kernel.latch import Latch
from polyrhythm.core.protocols.merge import Contribution
from polyrhythm.core.protocols.offers import Offers
from polyrhythm.core.protocols.responses import AdoptWeights, ApplyContributions, Response
from polyrhythm.core.protocols.topology import Agreement, InitialState, WorkerEndpoint
from polyrhythm.core.protocols.weights import WeightsView
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.summation.sum_source import SingleTensor, SumSource, TensorSums


class EachTensor:
    """A client for each tensor of `source`. `arrived` is opened when the sum of a tensor lies in `totals`.

    Tensors are numbered in the order of the layout, and the least number is sent first. Single tensors are offered if
    the next forward pass may wait for single tensors: the topology `defers`, and the merge does nothing with the mean but to step on it.
    """

    def __init__(self, agreement: Agreement, endpoint: WorkerEndpoint, source: SumSource, defers: bool) -> None:
        self.group = endpoint.group
        self.port = endpoint.port
        self.source = source
        self.clients: list[TensorSums] = []
        self.sizes: list[int] = []
        self.arrived: dict[int, Latch] = {}
        self.totals: dict[int, Tensor] = {}
        averages = defers and agreement.merge.traits.averages and self.group.size > 1
        self.offers = Offers(tensors=self if averages else None)  # None where the next forward pass may not wait for single tensors

    async def establish(self, initial: InitialState) -> Response:
        state, start = initial.model_state, 0
        await self.source.begin(state.layout)
        for number, layout in enumerate(state.layout.each):
            single = SingleTensor(number, layout, start, state, partial(_weights, state, start, layout.numel))
            self.clients.append(self.source.tensor(single))
            self.sizes.append(layout.numel)
            start += layout.numel
        return AdoptWeights(await broadcast(self.port, self.group, initial.agreed(), "init"))

    async def send(self, number: int, value: Tensor, clock: int) -> None:
        self.arrived[number] = Latch()
        await self.port.spawn(f"tensor {number}", self._sum(number, value, clock))

    async def receive(self, numbers: Sequence[int]) -> list[Tensor]:
        for number in numbers:
            await self.port.wait(self.arrived[number])
        return [self.totals.pop(number) / self.group.size for number in numbers]

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        parts = torch.split(value, self.sizes)
        for number in reversed(range(len(parts))):
            await self.send(number, parts[number], clock)
        for number in range(len(parts)):
            await self.port.wait(self.arrived[number])
        total = torch.cat([self.totals.pop(number) for number in range(len(parts))])
        return ApplyContributions([Contribution(total, self.group.size, rates=rates)])

    async def finish(self) -> Response:
        await self.source.finish()
        return ApplyContributions([])

    async def drain(self, step: int) -> str:
        return await self.source.drain(step)

    def export(self) -> StateTree:
        return [client.export() for client in self.clients]

    def restore(self, state: StateTree) -> None:
        for client, exported in zip(self.clients, state, strict=True):
            client.restore(exported)

    def take_over(self, state: StateTree, own: bool) -> None:
        for client, exported in zip(self.clients, state, strict=True):
            client.take_over(exported, own)

    def inherit(self, residual: Tensor) -> None:
        for client, part in zip(self.clients, torch.split(residual, self.sizes), strict=True):
            client.inherit(part)

    def states(self) -> list[tuple[State, Tensor]]:
        return [state for client in self.clients for state in client.states()]

    async def _sum(self, number: int, value: Tensor, clock: int) -> None:
        self.totals[number] = await self.clients[number].sum(value, clock)
        self.arrived[number].open()


def _weights(state: WeightsView, start: int, numel: int) -> Tensor:
    return state.weights.narrow(0, start, numel)
