"""Sums that are waited for tensor by tensor, when the next forward pass needs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.errors import CompositionError
from polyrhythm.kernel.group import Group
from polyrhythm.kernel.latch import Latch
from polyrhythm.kernel.port import Port
from polyrhythm.pieces.merge import Contribution
from polyrhythm.pieces.responses import AdoptWeights, ApplyContributions, Response
from polyrhythm.pieces.topology import Agreement, Channel, InitialState, ServerSide, Tensors, WorkerEndpoint
from polyrhythm.pieces.traits import Pattern, Payload, TopologyTraits
from polyrhythm.pieces.weights import WeightsView
from polyrhythm.tensors import Layout, State
from polyrhythm.topology.algorithms.broadcast import broadcast
from polyrhythm.topology.collective_client import CollectiveClient
from polyrhythm.topology.shares import Stretch
from polyrhythm.topology.summation import Summation
from polyrhythm.topology.summation_client import SummationClient
from polyrhythm.trees import StateTree


@dataclass(frozen=True, slots=True)
class Deferred:
    """Send each gradient as soon as backward() has computed it, and wait for its sum only before the forward pass that needs it.

    The parameters of the first layers, which the next forward pass needs first, overtake those of the last (ByteScheduler, Peng et al.,
    2019; BytePS, Jiang et al., 2020, section 5). There is one backward() to each optimizer.step(), and nobody changes gradients between the
    two; weights are read inside the forward pass of a module, in `state_dict()`, or after the run. Raises CompositionError where something
    else than a summation service is wrapped.
    """

    traits: ClassVar = TopologyTraits(frozenset({Payload.GRADIENT}), Pattern.COLLECTIVE)

    topology: Summation = field(default_factory=Summation)

    def __post_init__(self) -> None:
        if not isinstance(self.topology, Summation):  # not a choice between pieces: what is annotated, for those who do not check types
            raise CompositionError(
                f"Deferred({self.topology!r}) cannot be: workers are at different tensors at a time, and only a summation service sums "
                "in any order. Give it Summation(...), or take Bucketed for an all-reduce during backward()."
            )

    @property
    def service(self) -> ServerSide | None:
        """As the summation service's."""
        return self.topology.service

    def workers(self, available: int) -> int:
        """All."""
        return available

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        """A worker's side."""
        return _EachTensor(agreement, endpoint, SummationClient(endpoint, self.topology.nbytes))

    def result_actors(self, members: tuple[str, ...], servers: tuple[str, ...]) -> list[str]:
        """Worker 0, whose weights are those of all."""
        return [members[0]]

    def result(self, weights: Sequence[Tensor]) -> Tensor:
        """As they are."""
        return weights[0]


class _EachTensor:
    """A client for each tensor. `arrived` is opened when the sum of a tensor lies in `totals`.

    Tensors are numbered in the order of the layout, and the least number is sent first. `averages`: whether
    the merge does nothing with the mean but to step on it.
    """

    buckets = None
    in_place = None
    writes = None
    late = None
    collective = None

    def __init__(self, agreement: Agreement, endpoint: WorkerEndpoint, sums: SummationClient) -> None:
        self.agreement = agreement
        self.endpoint = endpoint
        self.group = endpoint.group
        self.port = endpoint.port
        self.sums = sums
        self.clients: list[CollectiveClient] = []
        self.arrived: dict[int, Latch] = {}
        self.totals: dict[int, Tensor] = {}
        self.averages = agreement.merge.traits.averages and self.group.size > 1

    @property
    def tensors(self) -> Tensors | None:
        """None where the merge makes of all gradients something that one of them cannot tell."""
        return self if self.averages else None

    async def establish(self, initial: InitialState) -> Response:
        state, start = initial.model_state, 0
        verbatim = self.agreement.codec.traits.verbatim
        for number, layout in enumerate(_each(state.layout)):
            order = _Ordered(self.sums, number, Stretch(start, state.layout.numel) if verbatim else None)
            client = CollectiveClient(order, self.agreement.codec, self.endpoint, f"{number}/" if number else "")
            client.open(layout, partial(_weights, state, start, layout.numel), state)
            self.clients.append(client)
            start += layout.numel
        return AdoptWeights(await broadcast(self.port, self.group, initial.weights(), "init"))

    async def send(self, number: int, value: Tensor, clock: int) -> None:
        self.arrived[number] = Latch()
        await self.port.spawn(f"tensor {number}", self._sum(number, value, clock))

    async def receive(self, numbers: Sequence[int]) -> list[Tensor]:
        for number in numbers:
            await self.port.wait(self.arrived[number])
        return [self.totals.pop(number) / self.group.size for number in numbers]

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        parts = torch.split(value, [client.layout.numel for client in self.clients])
        for number in reversed(range(len(parts))):
            await self.send(number, parts[number], clock)
        for number in range(len(parts)):
            await self.port.wait(self.arrived[number])
        total = torch.cat([self.totals.pop(number) for number in range(len(parts))])
        return ApplyContributions([Contribution(total, self.group.size, rates=rates)])

    async def finish(self) -> Response:
        await self.sums.finish()
        return ApplyContributions([])

    async def drain(self, step: int) -> str:
        return await self.sums.drain(step)

    def export(self) -> StateTree:
        return [client.export() for client in self.clients]

    def restore(self, state: StateTree) -> None:
        for client, exported in zip(self.clients, state, strict=True):
            client.restore(exported)

    def states(self) -> list[tuple[State, Tensor]]:
        return [state for client in self.clients for state in client.states()]

    async def _sum(self, number: int, value: Tensor, clock: int) -> None:
        self.totals[number] = await self.clients[number].sum(value, clock)
        self.arrived[number].open()


@dataclass(frozen=True, slots=True)
class _Ordered:
    """Sums of one tensor, which go by its number; `stretch` is where it lies, if what is summed is the tensor itself."""

    sums: SummationClient
    number: int
    stretch: Stretch | None

    async def reduce(self, port: Port, group: Group, value: Tensor, topic: str) -> Tensor:
        """As `topology.algorithms.AnyReduction`."""
        return await self.sums.sum(value, topic, self.stretch or Stretch(0, value.numel()), self.number)


def _each(layout: Layout) -> list[Layout]:
    """A layout for each tensor."""
    return [Layout((name,), (shape,)) for name, shape in zip(layout.names, layout.shapes, strict=True)]


def _weights(state: WeightsView, start: int, numel: int) -> Tensor:
    return state.weights.narrow(0, start, numel)
