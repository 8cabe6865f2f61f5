"""Workers average their weights two by two, at any time, while they compute."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.merge import mixing
from polyrhythm.core.protocols.offers import NOTHING
from polyrhythm.core.protocols.responses import AdoptWeights, Response
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
from polyrhythm.topology.graphs.bipartite import BipartiteGraph
from polyrhythm.topology.graphs.graph import Graph

_ASK, _ANSWER = "ask", "answer"


@dataclass(frozen=True, slots=True)
@checked
class PairAverages:
    """After a step a worker asks one of those that `graph` lets it send to, drawn at random, and both go to the mean of their weights.

    (AD-PSGD; Lian, Zhang, Zhang, Liu, ICML 2018.) Nobody waits: a worker computes on while its question is under way, and asks the next
    after the first step by which the answer has come. Who is asked answers at once, also when it has a question under way itself, so there
    is no deadlock on any graph. Both apply the difference that the average makes to the weights that they sent, to the weights that
    they have by then, so that the sum over all workers changes by their own steps alone. With another merge both mix as it has it.
    The run ends with the mean of all replicas.
    """

    traits: ClassVar = TopologyTraits(frozenset({Payload.WEIGHTS}), "with some peers", SOME_PEERS - {Capability.OWN_WEIGHTS})
    service: ClassVar[None] = None
    result: ClassVar = AllWorkers()

    graph: Graph = field(default_factory=BipartiteGraph)

    def workers(self, available: int) -> int:
        """All, if the graph has room for them."""
        self.graph.check(available)
        return available

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        return _Averager(self.graph, agreement, endpoint)


class _Averager:
    """`held` (numel,) are the worker's weights as others see them, and `given` as the worker computes on; neither is ever written to.

    `sent` are the weights that the worker got that was asked last. `moved` is what the worker's last step did, with the sign of a gradient.
    """

    offers = NOTHING

    def __init__(self, graph: Graph, agreement: Agreement, endpoint: WorkerEndpoint) -> None:
        self.coded = VectorEncoder(agreement, endpoint)
        self.coded.context = self.coded.context.changed(update=lambda: self.moved)
        self.merge = mixing(agreement.merge)
        self.port = endpoint.port
        self.question = Question(graph, endpoint)
        self.mail = PeerMail(endpoint, self._take, self.question.lose)
        self.held: Tensor
        self.given: Tensor
        self.sent: Tensor
        self.moved: Tensor
        self.clock = 0

    async def establish(self, initial: InitialState) -> Response:
        self.coded.open(initial.model_state.layout)
        self.held = self.given = await self.mail.establish(initial)
        self.moved = self.held - self.held
        await self.mail.listen()
        return AdoptWeights(self.given)

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        self.clock, self.moved = clock, self.given - value
        self.held = value.clone() if self.held is self.given else value + (self.held - self.given)
        if not self.question.asked and (partner := self.question.ask(clock, self.mail.present)):
            self.sent, message = self._encoded(_ASK)
            await self.port.send(partner, message)
        self.given = self.held
        return AdoptWeights(self.given)

    async def _take(self, sender: str, message: Message) -> None:
        theirs = self.coded.decode(message.tensors)
        if message.text == _ASK:
            mine, answer = self._encoded(_ANSWER)
            self._mix(mine, theirs)
            await self.port.send(sender, answer)
        else:
            self._mix(self.sent, theirs)
            self.question.end()

    def _encoded(self, text: str) -> tuple[Tensor, Message]:
        """The weights as they are now, as the receiver decodes them, and the message."""
        encoded = self.coded.encode(self.held, self.clock, lambda: self.held)
        return encoded.sent, Message(MAIL, text=text, tensors=encoded.packet)

    def _mix(self, mine: Tensor, theirs: Tensor) -> None:
        """Apply what mixing `theirs` does to `mine` to the weights as they are now."""
        context = self.coded.context.changed(clock=self.clock, source=lambda: self.held, layout=self.coded.layout)
        mixed = self.merge.mix(mine, [theirs], context)
        self.held = mixed if self.held is mine else mixed + (self.held - mine)

    async def _settle(self) -> None:
        if self.question.asked:
            await self.port.wait(self.question.answered)

    async def finish(self) -> Response:
        await self._settle()
        await self.mail.finish()
        return AdoptWeights(await self.mail.mean(self.held))

    async def drain(self, step: int) -> str:
        await self._settle()
        return await self.mail.drain()

    def export(self) -> StateTree:
        return {"codec": self.coded.state, "clock": self.clock, "held": self.held, "given": self.given}

    def restore(self, state: StateTree) -> None:
        self.coded.state, self.clock, self.held, self.given = state["codec"], state["clock"], state["held"], state["given"]

    def take_over(self, state: StateTree, own: bool) -> None:
        self.coded.take_over(state["codec"], own)
        self.clock, self.held, self.given = state["clock"], state["held"], state["given"]

    def inherit(self, residual: Tensor) -> None:
        self.coded.inherit(residual)

    def states(self) -> list[tuple[State, Tensor]]:
        return self.coded.states()
