"""One worker in one group with all others, whose gradients are summed tensor by tensor, in whatever order they come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from polyrhythm.core.collectives.broadcast import broadcast
from polyrhythm.core.kernel.latch import Latch
from polyrhythm.core.protocols.algorithm import AnyReduction
from polyrhythm.core.protocols.merge import Contribution
from polyrhythm.core.protocols.offers import Offers
from polyrhythm.core.protocols.responses import AdoptWeights, ApplyContributions, Response
from polyrhythm.core.protocols.topology import Agreement, InitialState, WorkerEndpoint
from polyrhythm.core.protocols.weights import WeightsView
from polyrhythm.core.tensors import Layout, State
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.collective.clients import Clients
from polyrhythm.topology.collective.collective_client import CollectiveClient


@dataclass(slots=True)
class TensorSum:
    """The sum of one tensor in one step; `ended` is open when `total` is known."""

    client: CollectiveClient
    value: Tensor
    clock: int
    total: Tensor | None = None
    ended: Latch = field(default_factory=Latch)

    def end(self, total: Tensor) -> None:
        """Set `total`, and open `ended`."""
        self.total = total
        self.ended.open()


class SumLauncher(Protocol):
    """Has tensors summed in the background."""

    def open(self, clients: Sequence[CollectiveClient]) -> None:
        """The clients of all tensors, the last of the layout first."""

    async def launch(self, number: int, tensor: TensorSum) -> None:
        """Have the tensor `number` summed, which has come at this worker; return before it is."""

    async def conclude(self) -> None:
        """All tensors of a step have been summed."""

    def export(self) -> StateTree:
        """The state for a checkpoint, which is written between steps."""

    def restore(self, state: StateTree) -> None:
        """Take over an exported state."""


class TensorChannel:
    """A client for each tensor, numbered from the last of the layout; the first has no name.

    Sums are made by messages: a runtime's own have no names, and must come in one order at all workers.
    """

    def __init__(self, agreement: Agreement, endpoint: WorkerEndpoint, reduction: AnyReduction, launcher: SumLauncher) -> None:
        self.agreement = agreement
        self.endpoint = endpoint
        self.group = endpoint.group
        self.port = endpoint.port
        self.reduction = reduction
        self.offers = Offers(buckets=self)
        self.launcher = launcher
        self.clients = Clients()
        self.sums: dict[int, TensorSum] = {}
        self.clock = 1

    @property
    def layouts(self) -> list[Layout]:
        return self.clients.layouts

    async def establish(self, initial: InitialState) -> Response:
        state, end = initial.model_state, initial.model_state.layout.numel
        for number, layout in enumerate(_backwards(state.layout)):
            client = CollectiveClient(self.reduction, self.agreement.codec, self.endpoint, f"{number}/" if number else "")
            end -= layout.numel
            client.open(layout, partial(_weights, state, end, layout.numel), state)
            self.clients.append(client)
        self.launcher.open(self.clients)
        self.clients.conclude()
        return AdoptWeights(await broadcast(self.port, self.group, initial.agreed(), "init"))

    async def exchange_bucket(self, bucket: int, value: Tensor) -> None:
        self.sums[bucket] = TensorSum(self.clients[bucket], value, self.clock)
        await self.launcher.launch(bucket, self.sums[bucket])

    async def conclude(self, rates: tuple[float, ...]) -> Response:
        totals = []
        for number in reversed(range(len(self.clients))):
            await self.port.wait(self.sums[number].ended)
            total = self.sums.pop(number).total
            assert total is not None, "it has ended"
            totals.append(total)
        await self.launcher.conclude()
        self.clock += 1
        self.clients.conclude()
        return ApplyContributions([Contribution(torch.cat(totals), self.group.size, rates=rates)])

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        self.clock = clock
        for number, part in enumerate(reversed(torch.split(value, [layout.numel for layout in reversed(self.layouts)]))):
            await self.exchange_bucket(number, part)
        return await self.conclude(rates)

    async def finish(self) -> Response:
        return ApplyContributions([])

    async def drain(self, step: int) -> str:
        return ""  # every exchange has brought what was sent for it

    def export(self) -> StateTree:
        return {"clock": self.clock, "clients": self.clients.export(), "launcher": self.launcher.export()}

    def restore(self, state: StateTree) -> None:
        self.clock = state["clock"]
        self.clients.restore(state["clients"])
        self.launcher.restore(state["launcher"])

    def take_over(self, state: StateTree, own: bool) -> None:
        self.clock = state["clock"]
        self.clients.take_over(state["clients"], own)
        self.launcher.restore(state["launcher"])

    def inherit(self, residual: Tensor) -> None:
        self.clients.inherit(residual)

    def states(self) -> list[tuple[State, Tensor]]:
        return self.clients.states()


def _backwards(layout: Layout) -> list[Layout]:
    """A layout for each tensor, the last first."""
    return [Layout((name,), (shape,)) for name, shape in zip(reversed(layout.names), reversed(layout.shapes), strict=True)]


def _weights(state: WeightsView, start: int, numel: int) -> Tensor:
    return state.weights.narrow(0, start, numel)
