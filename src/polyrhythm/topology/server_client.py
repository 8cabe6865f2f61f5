"""A worker's side of parameter servers whose answers it waits for."""

from __future__ import annotations

from torch import Tensor

from polyrhythm.pieces.answers import Adopt, Answer, Mix, Move
from polyrhythm.pieces.merge import Contribution
from polyrhythm.pieces.terms import Subject
from polyrhythm.pieces.topology import Opening, Terms, WorkerEndpoint
from polyrhythm.tensors import State
from polyrhythm.topology.server_requests import NEWER, NOTHING, WEIGHTS, Requests


class Client:
    """Pushes what it is given, and reads when the consistency says so.

    Between reads it shows its own contributions on top of what it last read, where adding them up is all that the server does. A read
    asks for newer weights only, as long as what it last read lies unchanged in its holder's anchor.
    """

    buckets = None
    in_place = None

    def __init__(self, terms: Terms, endpoint: WorkerEndpoint) -> None:
        self.terms = terms
        self.requests = Requests(terms, endpoint)
        self.keeps = terms.subject is not Subject.WEIGHTS
        """Whether the anchor still is what was last read."""

    async def establish(self, opening: Opening) -> Answer:
        return Adopt(await self.requests.join(opening))

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Answer:
        reads = not self.terms.previews or self.terms.consistency.must_read(clock, min(self.requests.clocks))
        asked = (NEWER if self.keeps else WEIGHTS) if reads else NOTHING
        said = await self.requests.push(value, clock, [asked] * len(self.requests.names), rates)
        self.keeps = reads and self.terms.subject is not Subject.WEIGHTS
        if not reads:
            return Move([Contribution(said, rates=rates)])
        weights = await self.requests.answers()
        return Mix([weights]) if self.terms.subject is Subject.WEIGHTS else Adopt(weights)

    async def finish(self) -> Answer:
        await self.requests.done()
        return Adopt(await self.requests.answers())

    def states(self) -> list[tuple[State, Tensor]]:
        return self.requests.states()
