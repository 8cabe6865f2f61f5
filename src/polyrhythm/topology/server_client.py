"""A worker's side of parameter servers."""

from __future__ import annotations

import msgspec
import torch
from torch import Tensor

from polyrhythm.kernel.message import Message
from polyrhythm.kernel.port import Port, server
from polyrhythm.pieces.answers import Adopt, Answer, Mix, Move
from polyrhythm.pieces.merge import Contribution
from polyrhythm.pieces.terms import Place, Subject
from polyrhythm.pieces.topology import Opening, Terms
from polyrhythm.tensors import Layout, State

REQUESTS = "ask"
"""All that workers say to a shard has this topic, so that a shard hears each worker in the order in which it spoke."""
JOIN, PUSH, DONE, WAKE = 0.0, 1.0, 2.0, 3.0
"""The kinds of request; the first number of each. A shard wakes itself when a worker was lost."""


class Founding(msgspec.Struct, frozen=True):
    """What worker 0 tells a shard at the beginning: names and shapes of its part, and how to build the user's optimizer."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    optimizer: str


class Client:
    """Remembers the version and the slowest clock it last heard of: both tell how stale its weights may be."""

    buckets = None
    in_place = None

    def __init__(self, shards: int, terms: Terms, place: Place, port: Port) -> None:
        self.terms = terms
        self.place = place
        self.port = port
        self.names = [server(k) for k in range(shards)]
        self.parts: list[Layout]
        self.coded: list[State]
        self.versions = [0] * shards
        self.known = 0.0
        self.draw = port.rng("codec")

    async def establish(self, opening: Opening) -> Answer:
        layout = opening.holder.layout
        self.parts = layout.split(len(self.names))
        self.coded = [self.terms.codec.initial(part) for part in self.parts]
        if self.place.rank == 0:
            for name, part, piece in zip(self.names, self.parts, layout.cut(opening.weights(), self.parts), strict=True):
                founding = msgspec.json.encode(Founding(part.names, part.shapes, opening.optimizer)).decode()
                await self.port.send(name, Message(REQUESTS, (JOIN,), founding, (piece,)))
        else:
            for name in self.names:
                await self.port.send(name, Message(REQUESTS, (JOIN,)))
        return Adopt(await self._answers())

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Answer:
        reads = self.terms.consistency.must_read(clock, self.known)
        pieces = torch.split(value, [part.numel for part in self.parts])
        said = []
        await self.port.flush()  # where nothing is read for a while, pushes would pile up on a line that is too slow
        for k, (part, piece) in enumerate(zip(self.parts, pieces, strict=True)):
            encoded = self.terms.codec.encode(piece, part, self.coded[k], self.draw)
            self.coded[k] = encoded.state
            said.append(encoded.said)
            numbers = (PUSH, float(clock), float(self.versions[k]), float(reads), *rates)
            await self.port.send(self.names[k], Message(REQUESTS, numbers, tensors=encoded.packet))
        if not reads:
            return Move([Contribution(torch.cat(said), rates=rates)])
        weights = await self._answers()
        return Mix([weights]) if self.terms.subject is Subject.WEIGHTS else Adopt(weights)

    async def _answers(self) -> Tensor:
        """The weights of all shards (numel,), in order."""
        weights, slowest = [], float("inf")
        for k, name in enumerate(self.names):
            delivery = await self.port.receive(f"w{k}", name)
            assert delivery is not None
            version, oldest = delivery.message.numbers
            self.versions[k] = int(version)
            slowest = min(slowest, oldest)
            weights.append(delivery.message.tensors[0])
        self.known = slowest
        return torch.cat(weights)

    async def finish(self) -> Answer:
        for name in self.names:
            await self.port.send(name, Message(REQUESTS, (DONE,)))
        return Adopt(await self._answers())

    def states(self) -> list[tuple[State, Tensor]]:
        return [(state, self.terms.codec.owed(state, part)) for state, part in zip(self.coded, self.parts, strict=True)]
