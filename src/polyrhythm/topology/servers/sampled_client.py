"""A worker's side of parameter servers, where it takes part in some rounds only."""

from __future__ import annotations

from torch import Tensor

from polyrhythm.core.protocols.offers import Offers
from polyrhythm.core.protocols.responses import AdoptBeneath, AdoptWeights, ApplyContributions, Response
from polyrhythm.core.protocols.topology import Agreement, InitialState
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.servers.server_records import Wanted
from polyrhythm.topology.servers.server_requests import ServerRequests


class SampledClient:
    """Pushes after each of its rounds, and gets weights before each: with the response if the next is one, else by a separate request.

    It is its own `late`: between two of its rounds it is `under_way`, and `clock` is the last step. After a change of the workers the draw
    is another one, and they are at different steps: a round of all begins, `joint`, which ends at the next exchange of the one that is
    furthest. Until then nobody waits for another.
    """

    def __init__(self, agreement: Agreement, requests: ServerRequests) -> None:
        self.takes_part = agreement.conditions.takes_part
        self.requests = requests
        self.offers = Offers(late=self, rest=requests.rest)
        self.under_way = not self._chosen(1)
        self.clock = 0
        self.joint = False

    def _chosen(self, clock: int) -> bool:
        return self.takes_part(clock, self.requests.group.rank, self.requests.group)

    async def establish(self, initial: InitialState) -> Response:
        return AdoptWeights(await self.requests.join(initial))

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        self.clock, again = clock, self._chosen(clock + 1)
        waits = again or self.joint
        await self.requests.push(value, clock, [Wanted.WEIGHTS if waits else Wanted.NOTHING] * len(self.requests.names), rates)
        self.under_way = not again
        weights = await self.requests.responses() if waits else None
        self.joint = False
        return AdoptWeights(weights) if weights is not None and again else ApplyContributions([])

    def due(self, clock: int) -> bool:
        """True if it takes part in the next step, and needs weights for it."""
        self.clock = clock
        return self.under_way and (self.joint or self._chosen(clock + 1))

    async def collect(self) -> Response:
        """The weights after the round before; in a round of all those that there are."""
        await self.requests.fetch(0 if self.joint else self.clock, [Wanted.WEIGHTS] * len(self.requests.names))
        weights = await self.requests.responses()
        self.under_way = False
        return AdoptBeneath(weights)

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
        """It takes part in the round of all: from new weights, unless it has taken steps that it has not sent."""
        self.clock, self.joint = state["clock"], True
        self.requests.take_over(state["requests"], own)
        self.under_way = not own or state["under_way"] or any(self.requests.again)

    def inherit(self, residual: Tensor) -> None:
        self.requests.inherit(residual)

    def states(self) -> list[tuple[State, Tensor]]:
        return self.requests.states()
