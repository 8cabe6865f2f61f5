"""Everybody asks, everybody answers, nobody is special."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from polyrhythm.kernel.effects import Effect
from polyrhythm.kernel.events import Recorder
from polyrhythm.kernel.port import Port
from polyrhythm.pieces.answers import Adopt, Answer, Move
from polyrhythm.pieces.codec import Speaker, Told
from polyrhythm.pieces.merge import Contribution
from polyrhythm.pieces.questions import Packet
from polyrhythm.pieces.terms import DIFFERENCES, Manner, Place, Subject
from polyrhythm.pieces.topology import Channel, Opening, Terms
from polyrhythm.tensors import Layout, State
from polyrhythm.topology.algorithm import Algorithm, gather, scatter
from polyrhythm.topology.broadcast import broadcast
from polyrhythm.topology.ring import Ring


@dataclass(frozen=True, slots=True)
class AllReduce:
    """Collective questions among the workers alone; `algorithm` says how sums are made: Ring, Direct, Tree, Butterfly, Fastest."""

    algorithm: Algorithm = field(default_factory=Ring)

    @property
    def accepts(self) -> frozenset[Subject]:
        """Differences; the mean of weights is the mean of what was done to equal weights."""
        return DIFFERENCES

    @property
    def manner(self) -> Manner:
        """Collectively."""
        return Manner.COLLECTIVE

    def workers(self, available: int) -> int:
        """All."""
        return available

    def servers(self, workers: int) -> int:
        """None."""
        return 0

    def channel(self, terms: Terms, place: Place, port: Port) -> Channel:
        """A worker's side."""
        return _Circle(self.algorithm, terms, place, port)

    def serve(self, terms: Terms, place: Place, port: Port, record: Recorder) -> Coroutine[Effect[Any], Any, None]:
        """There is no server."""
        raise NotImplementedError("AllReduce has no server")


class _Circle:
    """One worker among equals. Rounds are counted, and their numbers are the topics, so that no two questions are confused."""

    def __init__(self, algorithm: Algorithm, terms: Terms, place: Place, port: Port) -> None:
        self.algorithm = algorithm
        self.codec = terms.codec
        self.place = place
        self.port = port
        self.speaker = Speaker(place, port.rng("codec"))
        self.layout: Layout
        self.state: State
        self.rounds = 0

    async def establish(self, opening: Opening) -> Answer:
        self.layout = opening.holder.layout
        self.state = self.codec.initial(self.layout)
        return Adopt(await broadcast(self.port, self.place, opening.weights(), "init"))

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Answer:
        told = await self._converse(value)
        self.state = told.state
        return Move([Contribution(told.total, self.place.workers, rates=rates)])

    async def _converse(self, value: Tensor) -> Told:
        conversation = self.codec.converse(value, self.layout, self.state, self.speaker)
        answer: Any = None
        while True:
            try:
                question = conversation.send(answer)
            except StopIteration as end:
                told: Told = end.value
                return told
            answer = await question.ask(self)

    async def reduce(self, value: Tensor) -> Tensor:
        topic = self._topic()
        total = await self.port.reduce(value, topic, self.place.workers, self.algorithm)
        return total if total is not None else await self.algorithm.reduce(self.port, self.place, value, topic)

    async def gather(self, packet: Packet) -> list[Packet]:
        return await gather(self.port, self.place, packet, self._topic())

    async def scatter(self, packets: Sequence[Packet]) -> list[Packet]:
        return await scatter(self.port, self.place, packets, self._topic())

    def _topic(self) -> str:
        self.rounds += 1
        return str(self.rounds)

    async def finish(self) -> Answer:
        return Move([])

    def states(self) -> list[tuple[State, Tensor]]:
        return [(self.state, self.codec.owed(self.state, self.layout))]
