"""One worker in one group with all others, whose vectors are summed whole, in `optimizer.step()`."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from polyrhythm.core.collectives.broadcast import broadcast
from polyrhythm.core.protocols.merge import Contribution
from polyrhythm.core.protocols.offers import InPlace, Offers
from polyrhythm.core.protocols.requests import CollectiveOperations
from polyrhythm.core.protocols.responses import AdoptWeights, ApplyContributions, Response
from polyrhythm.core.protocols.topology import InitialState, WorkerEndpoint
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.collective.collective_client import CollectiveClient


class SummingServers(Protocol):
    """Servers that make sums in addition to the workers."""

    async def finish(self) -> None:
        """No more sums will be asked for."""

    async def drain(self, step: int) -> str:
        """Have the servers write their state after `step`. Returns what prevented one of them; empty where nothing did."""


class NoServers:
    """The workers make all sums: every exchange has brought what was sent for it."""

    async def finish(self) -> None:
        """There are no servers to notify."""

    async def drain(self, step: int) -> str:
        """Nothing is on its way to servers."""
        return ""


class VectorChannel:
    """Every exchange is one sum by `client`, complete when the exchange returns.

    `collective` makes sums of other values than the exchange's, `in_place` is another way to exchange, and `servers` take part in sums.
    """

    def __init__(
        self,
        client: CollectiveClient,
        endpoint: WorkerEndpoint,
        servers: SummingServers,
        collective: CollectiveOperations | None = None,
        in_place: InPlace | None = None,
    ) -> None:
        self.client = client
        self.group = endpoint.group
        self.port = endpoint.port
        self.servers = servers
        self.offers = Offers(in_place=in_place, collective=collective if self.group.size > 1 else None)

    async def establish(self, initial: InitialState) -> Response:
        self.client.open(initial.model_state.layout, lambda: initial.model_state.weights, initial.model_state)
        return AdoptWeights(await broadcast(self.port, self.group, initial.agreed(), "init"))

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        return ApplyContributions([Contribution((await self.client.aggregate(value, clock)).total, self.group.size, rates=rates)])

    async def finish(self) -> Response:
        await self.servers.finish()
        return ApplyContributions([])

    async def drain(self, step: int) -> str:
        return await self.servers.drain(step)

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
