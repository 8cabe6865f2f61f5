"""A worker whose first steps count for nothing, while others train alone."""

from __future__ import annotations

from torch import Tensor

from polyrhythm.core.protocols.consistency import Consistency
from polyrhythm.core.protocols.offers import NOTHING
from polyrhythm.core.protocols.responses import AdoptWeights, ApplyContributions, Response
from polyrhythm.core.protocols.topology import Channel, InitialState
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.servers.server_requests import ServerRequests


class HeldClient:
    """Sends nothing while the first workers train alone; then it takes over the servers' weights, and forwards all to `client`.

    That is at its first exchange at or after the last step that these take alone; `pushed` is the last step until then that is pushed.
    """

    offers = NOTHING

    def __init__(self, consistency: Consistency, client: Channel, requests: ServerRequests) -> None:
        self.pushes = consistency.conditions.pushes
        self.head_start = consistency.traits.head_start
        self.client = client
        self.requests = requests
        self.holding = True
        self.pushed = 0

    async def establish(self, initial: InitialState) -> Response:
        return await self.client.establish(initial)

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        if not self.holding:
            return await self.client.exchange(value, clock, rates)
        if self.pushes(clock):
            self.pushed = clock
        if clock < self.head_start.steps:
            return ApplyContributions([])
        self.holding = False
        return AdoptWeights(await self.requests.begin(self.pushed, self.head_start.workers))

    async def finish(self) -> Response:
        return await self.client.finish()

    async def drain(self, step: int) -> str:
        return await self.client.drain(step)

    def export(self) -> StateTree:
        return {**self.client.export(), "holding": self.holding, "pushed": self.pushed}

    def restore(self, state: StateTree) -> None:
        self.holding, self.pushed = state["holding"], state["pushed"]
        self.client.restore(state)

    def take_over(self, state: StateTree, own: bool) -> None:
        """Also from one of the first workers, which hold nothing: it then does as the others did."""
        self.client.take_over(state, own)
        self.holding = state.get("holding", min(self.requests.clocks) < self.head_start.steps)
        self.pushed = state.get("pushed", 0)

    def inherit(self, residual: Tensor) -> None:
        self.client.inherit(residual)

    def states(self) -> list[tuple[State, Tensor]]:
        return self.client.states()
