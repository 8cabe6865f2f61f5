"""A worker's side of parameter servers whose responses it waits for."""

from __future__ import annotations

from torch import Tensor

from polyrhythm.core.protocols.merge import Contribution
from polyrhythm.core.protocols.offers import NOTHING
from polyrhythm.core.protocols.responses import AdoptWeights, ApplyContributions, MixWeights, Response
from polyrhythm.core.protocols.topology import Agreement, InitialState
from polyrhythm.core.protocols.traits import Payload
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.servers.server_records import Wanted
from polyrhythm.topology.servers.server_requests import ServerRequests


class ServerClient:
    """Pushes what it is given, and reads when the consistency has it.

    Between reads it shows its own contributions on top of what it last read, where adding them up is all that the server does. A read
    requests newer weights only, as long as what it last read lies unchanged in its model_state's anchor.
    """

    offers = NOTHING

    def __init__(self, agreement: Agreement, requests: ServerRequests) -> None:
        self.agreement = agreement
        self.requests = requests
        self.keeps = agreement.payload is not Payload.WEIGHTS
        """True while the anchor is what was last read."""

    async def establish(self, initial: InitialState) -> Response:
        return AdoptWeights(await self.requests.join(initial))

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        reads = not self.agreement.previews or self.agreement.conditions.must_read(clock, min(self.requests.clocks))
        wanted = (Wanted.NEWER if self.keeps else Wanted.WEIGHTS) if reads else Wanted.NOTHING
        sent = await self.requests.push(value, clock, [wanted] * len(self.requests.names), rates)
        self.keeps = reads and self.agreement.payload is not Payload.WEIGHTS
        if not reads:
            return ApplyContributions([Contribution(sent, rates=rates)])
        weights = await self.requests.responses()
        return MixWeights([weights]) if self.agreement.payload is Payload.WEIGHTS else AdoptWeights(weights)

    async def finish(self) -> Response:
        await self.requests.done()
        return AdoptWeights(await self.requests.responses())

    async def drain(self, step: int) -> str:
        return await self.requests.drain(step)

    def export(self) -> StateTree:
        return {"keeps": self.keeps, "requests": self.requests.export()}

    def restore(self, state: StateTree) -> None:
        self.keeps = state["keeps"]
        self.requests.restore(state["requests"])

    def take_over(self, state: StateTree, own: bool) -> None:
        self.keeps = state["keeps"]
        self.requests.take_over(state["requests"], own)

    def inherit(self, residual: Tensor) -> None:
        self.requests.inherit(residual)

    def states(self) -> list[tuple[State, Tensor]]:
        return self.requests.states()
