"""A worker's side of a ring of servers: a client, and the link through which its messages go."""

from __future__ import annotations

from torch import Tensor

from polyrhythm.core.protocols.offers import NOTHING
from polyrhythm.core.protocols.responses import Response
from polyrhythm.core.protocols.topology import Channel, InitialState
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.server_ring.driven import driven
from polyrhythm.topology.server_ring.ring_link import RingLink
from polyrhythm.topology.servers.server_requests import ServerRequests


class RingChannel:
    """The client's coroutines, with the link between them and the runtime."""

    offers = NOTHING

    def __init__(self, client: Channel, requests: ServerRequests, link: RingLink) -> None:
        self.client = client
        self.requests = requests
        self.link = link

    async def establish(self, initial: InitialState) -> Response:
        await self.link.begin()
        return await driven(self.client.establish(initial), self.link.handle)

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        return await driven(self.client.exchange(value, clock, rates), self.link.handle)

    async def finish(self) -> Response:
        response = await driven(self.client.finish(), self.link.handle)
        await self.link.goodbye()
        return response

    async def drain(self, step: int) -> str:
        return await driven(self.client.drain(step), self.link.handle)

    def export(self) -> StateTree:
        return {**self.client.export(), "requests": self.requests.exported(self.link.unmerged)}

    def restore(self, state: StateTree) -> None:
        self.client.restore(state)

    def take_over(self, state: StateTree, own: bool) -> None:
        self.client.take_over(state, own)

    def inherit(self, residual: Tensor) -> None:
        self.client.inherit(residual)

    def states(self) -> list[tuple[State, Tensor]]:
        return self.client.states()
