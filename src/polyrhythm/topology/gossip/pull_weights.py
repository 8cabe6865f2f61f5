"""Workers fetch the weights of another one, at any time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.protocols.offers import NOTHING
from polyrhythm.core.protocols.responses import AdoptWeights, MixWeights, Response
from polyrhythm.core.protocols.result_source import AllWorkers
from polyrhythm.core.protocols.topology import Agreement, Channel, InitialState, WorkerEndpoint
from polyrhythm.core.protocols.traits import Payload, TopologyTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.families import SOME_PEERS
from polyrhythm.topology.gossip.partners import Question
from polyrhythm.topology.gossip.peer_mail import MAIL, PeerMail
from polyrhythm.topology.gossip.vector_encoder import VectorEncoder
from polyrhythm.topology.graphs.complete_graph import CompleteGraph
from polyrhythm.topology.graphs.graph import Graph

_ASK, _ANSWER = "ask", "answer"


@dataclass(frozen=True, slots=True)
@checked
class PullWeights:
    """A worker asks one of those that `graph` lets it send to, drawn at random, for its weights, and mixes them with its own.

    (Pull-gossip; Jin, Yuan, Iandola, Keutzer, 2016.) Who is asked answers at once, with the weights as they are (between processes some
    may be those before its last step), and is not changed by it: the mean of all replicas is not kept, as it is by PairAverages. The run
    ends with the mean of all replicas.
    """

    traits: ClassVar = TopologyTraits(frozenset({Payload.WEIGHTS}), "with some peers", SOME_PEERS)
    service: ClassVar[None] = None
    result: ClassVar = AllWorkers()

    graph: Graph = field(default_factory=CompleteGraph)

    def workers(self, available: int) -> int:
        """All, if the graph has room for them."""
        self.graph.check(available)
        return available

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        return _Puller(self.graph, agreement, endpoint)


class _Puller:
    """`theirs` are the weights with which the last question was answered."""

    offers = NOTHING

    def __init__(self, graph: Graph, agreement: Agreement, endpoint: WorkerEndpoint) -> None:
        self.coded = VectorEncoder(agreement, endpoint)
        self.port = endpoint.port
        self.question = Question(graph, endpoint)
        self.mail = PeerMail(endpoint, self._take, self.question.lose)
        self.initial: InitialState
        self.first: Tensor
        self.clock = 0
        self.theirs: list[Tensor] = []

    async def establish(self, initial: InitialState) -> Response:
        self.first = await self.mail.establish(initial)
        self.initial = initial
        self.coded.open(initial.model_state.layout)
        await self.mail.listen()
        return AdoptWeights(self.first)

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        self.clock = clock
        self.theirs = []
        if partner := self.question.ask(clock, self.mail.present):
            await self.port.send(partner, Message(MAIL, text=_ASK))
            await self.port.wait(self.question.answered)
        return MixWeights(self.theirs)

    async def _take(self, sender: str, message: Message) -> None:
        if message.text == _ANSWER:
            self.theirs = [self.coded.decode(message.tensors)]
            self.question.end()
            return
        weights = self.initial.weights() if self.clock else self.first  # which the worker may not have taken over yet
        packet = self.coded.encode(weights, self.clock, lambda: weights).packet
        await self.port.send(sender, Message(MAIL, text=_ANSWER, tensors=packet))

    async def finish(self) -> Response:
        await self.mail.finish()
        return AdoptWeights(await self.mail.mean(self.initial.weights()))

    async def drain(self, step: int) -> str:
        return await self.mail.drain()

    def export(self) -> StateTree:
        return {"codec": self.coded.state, "clock": self.clock}

    def restore(self, state: StateTree) -> None:
        self.coded.state, self.clock = state["codec"], state["clock"]

    def take_over(self, state: StateTree, own: bool) -> None:
        self.coded.take_over(state["codec"], own)
        self.clock = state["clock"]

    def inherit(self, residual: Tensor) -> None:
        self.coded.inherit(residual)

    def states(self) -> list[tuple[State, Tensor]]:
        return self.coded.states()
