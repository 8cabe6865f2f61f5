"""Workers send their weights, or a part of them, to another one at any time."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.protocols.codec import inherited, packets, taken_over
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.offers import NOTHING
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.responses import AdoptWeights, ApplyContributions, MixParts, Response
from polyrhythm.core.protocols.result_source import AllWorkers, FirstWorker
from polyrhythm.core.protocols.topology import Agreement, Channel, InitialState, WorkerEndpoint
from polyrhythm.core.protocols.traits import Payload, TopologyTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.core.trees import StateTree
from polyrhythm.errors import CompositionError
from polyrhythm.topology.families import SOME_PEERS
from polyrhythm.topology.gossip.partners import drawn
from polyrhythm.topology.gossip.peer_mail import MAIL, PeerMail
from polyrhythm.topology.graphs.complete_graph import CompleteGraph
from polyrhythm.topology.graphs.graph import Graph


@dataclass(frozen=True, slots=True)
@checked
class PushWeights:
    """A worker sends its weights to one of those that `graph` lets it send to, drawn at random, and mixes in what has come.

    (Push-gossip; Jin, Yuan, Iandola, Keutzer, 2016.) Nobody waits: while a line is busy with what was sent before, nothing is sent. Of
    what one other has sent since a worker's last exchange, it has the newest. Who is sent more than others sends no more: the mean of all
    replicas is not kept, as it is by PairAverages. The run ends with the mean of all replicas.
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
        return _PushSender(self.graph, 1, _mean, agreement, endpoint)


@dataclass(frozen=True, slots=True)
@checked
class PushParts:
    """PushWeights in which a worker sends one of so many `parts` of its weights, drawn at random, and keeps its own in the end.

    What is mixed is the part that was sent, and the merge sees no more (Keuper, Pfreundt, 2015, section 3.1: partial updates). The
    result is the weights of worker 0, which in the end have come from all.
    """

    traits: ClassVar = TopologyTraits(frozenset({Payload.WEIGHTS}), "with some peers", SOME_PEERS, replicas_differ=True)
    service: ClassVar[None] = None
    result: ClassVar = FirstWorker()

    graph: Graph = field(default_factory=CompleteGraph)
    parts: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.parts, bool) or not isinstance(self.parts, int) or self.parts < 1:
            raise CompositionError(f"PushParts(parts={self.parts!r}) is no number of parts: give 1 (all weights) or more.")

    def workers(self, available: int) -> int:
        """All, if the graph has room for them."""
        self.graph.check(available)
        return available

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        return _PushSender(self.graph, self.parts, _own, agreement, endpoint)


End = Callable[[PeerMail, InitialState], Coroutine[Effect[Any], Any, Response]]
"""Makes the last response of a worker, when all have finished."""


async def _mean(mail: PeerMail, initial: InitialState) -> Response:
    return AdoptWeights(await mail.mean(initial.weights()))


async def _own(mail: PeerMail, initial: InitialState) -> Response:
    return ApplyContributions([])


class _PushSender:
    """`inbox` has for each sender the newest packet that it has sent, and of which part. `layouts` and `starts` are those of all parts.

    Nothing is sent while something is `leaving`: on a line that is too slow it would pile up without end, and arrive ever later.
    """

    offers = NOTHING

    def __init__(self, graph: Graph, parts: int, end: End, agreement: Agreement, endpoint: WorkerEndpoint) -> None:
        self.graph = graph
        self.parts = parts
        self.end = end
        self.codec = packets(agreement.codec)
        self.group = endpoint.group
        self.port = endpoint.port
        self.mail = PeerMail(endpoint, self._take)
        self.context = ExchangeContext(self.group, self.port.rng("codec"))
        self.initial: InitialState
        self.layouts: Sequence[Layout] = ()
        self.starts: Sequence[int] = ()
        self.coded: list[State] = []
        self.inbox: dict[str, tuple[int, Packet]] = {}
        self.leaving = False

    async def establish(self, initial: InitialState) -> Response:
        weights = await self.mail.establish(initial)
        self.initial = initial
        self.layouts = [part for part in initial.model_state.layout.split(self.parts) if part.names]
        self.starts = [sum(part.numel for part in self.layouts[:number]) for number in range(len(self.layouts))]
        self.coded = [self.codec.initial(part) for part in self.layouts]
        await self.mail.listen()
        return AdoptWeights(weights)

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        partner = drawn(self.graph, clock, self.group, self.mail.present, self.port.rng("partner"))
        number = int(self.port.rng("part").integers(len(self.layouts)))
        if partner and not self.leaving:
            part, start = self.layouts[number], self.starts[number]
            context = self.context.at(clock, lambda: value).range(start, part)
            encoded = self.codec.encode(value.narrow(0, start, part.numel).clone(), part, self.coded[number], context)
            self.coded[number] = encoded.state
            await self.port.send(partner, Message(MAIL, (float(number),), tensors=encoded.packet))
            self.leaving = True
            await self.port.spawn("leaving", self._leave())
        return MixParts(self._come())

    async def _leave(self) -> None:
        await self.port.flush()
        self.leaving = False

    def _come(self) -> list[tuple[int, Layout, list[Tensor]]]:
        """The weights that have come of each part, in the order of ranks; the inbox is empty then."""
        found: dict[int, list[Tensor]] = {}
        for name in sorted(self.inbox, key=rank_of):
            number, packet = self.inbox[name]
            found.setdefault(number, []).append(self.codec.decode(packet, self.layouts[number]))
        self.inbox.clear()
        return [(self.starts[number], self.layouts[number], found[number]) for number in sorted(found)]

    async def _take(self, sender: str, message: Message) -> None:
        self.inbox[sender] = int(message.numbers[0]), message.tensors

    async def finish(self) -> Response:
        await self.mail.finish()
        return await self.end(self.mail, self.initial)

    async def drain(self, step: int) -> str:
        return await self.mail.drain()

    def export(self) -> StateTree:
        return {"codec": self.coded, "inbox": list(self.inbox.items())}

    def restore(self, state: StateTree) -> None:
        self.coded = state["codec"]
        self.inbox = {name: (number, tuple(packet)) for name, (number, packet) in state["inbox"]}

    def take_over(self, state: StateTree, own: bool) -> None:
        """With the weights that have come, but at a worker that joins: its donor mixes them."""
        self.coded = taken_over(self.codec, state["codec"], self.layouts, own)
        self.inbox = {name: (number, tuple(packet)) for name, (number, packet) in state["inbox"]} if own else {}

    def inherit(self, residual: Tensor) -> None:
        parts = torch.split(residual, [layout.numel for layout in self.layouts])
        self.coded = inherited(self.codec, self.coded, self.layouts, parts)

    def states(self) -> list[tuple[State, Tensor]]:
        return [(state, self.codec.residual(state, part)) for state, part in zip(self.coded, self.layouts, strict=True)]


EXAMPLES = (PushWeights(), PushParts(parts=3))
