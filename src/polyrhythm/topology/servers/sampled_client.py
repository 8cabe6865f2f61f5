"""A worker's side of parameter servers, where it takes part in some rounds only."""

from __future__ import annotations

from torch import Tensor

from polyrhythm.core.protocols.offers import Offers
from polyrhythm.core.protocols.responses import AdoptWeights, ApplyContributions, Response
from polyrhythm.core.protocols.topology import Agreement, InitialState
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.servers.server_records import Wanted
from polyrhythm.topology.servers.server_requests import ServerRequests


class SampledClient:
    """Pushes after each of its rounds, and gets weights before each: with the response if the next is one, else by a separate request.

    It is its own `late`: between two of its rounds it is `under_way`, and `clock` is the last step.
    """

    def __init__(self, agreement: Agreement, requests: ServerRequests) -> None:
        self.takes_part = agreement.conditions.takes_part
        self.requests = requests
        self.offers = Offers(late=self)
        self.under_way = not self._chosen(1)
        self.clock = 0

    def _chosen(self, clock: int) -> bool:
        return self.takes_part(clock, self.requests.group.rank, self.requests.group)

    async def establish(self, initial: InitialState) -> Response:
        return AdoptWeights(await self.requests.join(initial))

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        self.clock, again = clock, self._chosen(clock + 1)
        await self.requests.push(value, clock, [Wanted.WEIGHTS if again else Wanted.NOTHING] * len(self.requests.names), rates)
        self.under_way = not again
        return AdoptWeights(await self.requests.responses()) if again else ApplyContributions([])

    def due(self, clock: int) -> bool:
        """True if it takes part in the next step, and needs weights for it."""
        self.clock = clock
        return self.under_way and self._chosen(clock + 1)

    async def collect(self) -> Response:
        """The weights after the round before."""
        self.under_way = False
        await self.requests.fetch(self.clock, [Wanted.WEIGHTS] * len(self.requests.names))
        return AdoptWeights(await self.requests.responses())

    async def finish(self) -> Response:
        await self.requests.done()
        return AdoptWeights(await self.requests.responses())

    async def drain(self, step: int) -> str:
        return await self.requests.drain(step)

    def export(self) -> StateTree:
        return {"under_way": self.under_way, "clock": self.clock, "requests": self.requests.export()}

    def restore(self, state: StateTree) -> None:
        self.under_way = state["under_way"]
        self.requests.restore(state["requests"])

    def take_over(self, state: StateTree, own: bool) -> None:
        """Which are its rounds depends on the workers of now; it continues one that is under way with the weights that it has."""
        self.clock = state["clock"]
        self.under_way = not self._chosen(self.clock + 1)
        self.requests.take_over(state["requests"], own)

    def inherit(self, residual: Tensor) -> None:
        self.requests.inherit(residual)

    def states(self) -> list[tuple[State, Tensor]]:
        return self.requests.states()
