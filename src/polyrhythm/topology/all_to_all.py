"""Every worker sends to every other, which merges what has come when it next looks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from torch import Tensor

from polyrhythm.kernel.message import Delivery, Message
from polyrhythm.kernel.names import rank_of
from polyrhythm.pieces.codec import packets
from polyrhythm.pieces.context import ExchangeContext
from polyrhythm.pieces.merge import EncodedContribution
from polyrhythm.pieces.requests import Packet
from polyrhythm.pieces.responses import AdoptWeights, ApplyContributions, ApplyOnTop, Response
from polyrhythm.pieces.result_source import FirstWorker
from polyrhythm.pieces.topology import Agreement, Channel, InitialState, PeerChannel, WorkerEndpoint
from polyrhythm.pieces.traits import DIFFERENCES, Pattern, Payload, TopologyTraits
from polyrhythm.pieces.weights import WeightsView
from polyrhythm.tensors import Layout, State
from polyrhythm.topology.algorithms.broadcast import heirs, pass_on
from polyrhythm.topology.losses import GONE
from polyrhythm.trees import StateTree

_FIRST, UPDATES = "init", "u"
_DRAINED = "drained"
"""The text of an update that has nothing but this: its sender sends nothing more before a checkpoint."""


class PeerUpdate(NamedTuple):
    """What a worker sends all others, beside its packet: its step (infinite after the last), and the learning rates of its optimizer."""

    clock: float
    rates: tuple[float, ...] = ()

    def to_numbers(self) -> tuple[float, ...]:
        """The fields in order."""
        return (self.clock, *self.rates)

    @staticmethod
    def from_numbers(numbers: tuple[float, ...]) -> PeerUpdate:
        """The update whose `to_numbers` these are."""
        clock, *rates = numbers
        return PeerUpdate(clock, tuple(rates))


@dataclass(frozen=True, slots=True)
class AllToAll:
    """Each worker sends its packet to every other and merges those that have come (Strom, 2015).

    How long it waits for others is the consistency's; under Asynchronous it never does. All replicas merge the same
    contributions, in the end, but not in the same order.
    """

    traits: ClassVar = TopologyTraits(DIFFERENCES, Pattern.PEERS)
    service: ClassVar[None] = None
    result: ClassVar = FirstWorker()

    def workers(self, available: int) -> int:
        """All."""
        return available

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        """A worker's side."""
        return _Peer(agreement, endpoint, ApplyContributions)


@dataclass(frozen=True, slots=True)
class Mirrors:
    """As AllToAll, but what an actor does to its own weights counts there in full, whatever of it others are sent.

    Among workers it is the decentralized exchange of Addair's actors (2017); among the servers of groups that of Gaia (Hsieh et al., NSDI
    2017, section 3): copies of the weights that differ by what was not significant enough to be sent.
    """

    traits: ClassVar = TopologyTraits(frozenset({Payload.UPDATE}), Pattern.PEERS, replicas_differ=True)
    service: ClassVar[None] = None
    result: ClassVar = FirstWorker()

    def workers(self, available: int) -> int:
        """All."""
        return available

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> PeerChannel:
        """An actor's side."""
        return _Peer(agreement, endpoint, ApplyOnTop)


class _Peer:
    """`clocks` are the latest steps received, by peer; `pending` what has come and may not be merged yet.

    `drained` are the peers that send nothing until the next checkpoint is written.
    """

    buckets = None
    writes = None
    late = None
    collective = None
    in_place = None
    tensors = None

    def __init__(self, agreement: Agreement, endpoint: WorkerEndpoint, respond: type[ApplyContributions] | type[ApplyOnTop]) -> None:
        self.respond = respond
        self.codec = packets(agreement.codec)
        self.consistency = agreement.consistency
        self.group = endpoint.group
        self.port = endpoint.port
        self.context = ExchangeContext(self.group, self.port.rng("codec"))
        self.model_state: WeightsView
        self.layout = Layout((), ())
        self.state: State = {}
        self.clocks = {name: 0.0 for name in self.group.members if name != self.port.name}
        self.pending: list[tuple[float, int, EncodedContribution]] = []
        self.drained: set[str] = set()

    async def establish(self, initial: InitialState) -> Response:
        self.model_state = initial.model_state
        self.layout = initial.model_state.layout
        self.state = self.codec.initial(self.layout)
        weights = initial.weights()
        await self.port.spawn("lost", self._watch(weights if self.group.rank == 0 else None))
        if self.group.rank:
            delivery = await self.port.receive(_FIRST)  # from the parent in the tree, or from worker 0 in its stead
            assert delivery is not None
            weights = delivery.message.tensors[0]
        await pass_on(self.port, self.group, Message(_FIRST, tensors=(weights,)))
        return AdoptWeights(weights)

    async def _watch(self, first: Tensor | None) -> None:
        while True:
            delivery = await self.port.receive(GONE)
            assert delivery is not None
            name = delivery.message.text
            if self.clocks.pop(name, None) is None:
                continue
            await self.port.send(self.port.name, Message(UPDATES))
            if first is not None:
                for heir in (self.group.members[rank] for rank in heirs(self.group.members.index(name), self.group.size)):
                    if self.clocks.get(heir) == 0:  # nothing received yet: it may be waiting for what the lost one had for it
                        await self.port.send(heir, Message(_FIRST, tensors=(first,)))

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        context = self.context.at(clock, lambda: self.model_state.weights, self.model_state.factors)
        encoded = self.codec.encode(value, self.layout, self.state, context)
        self.state = encoded.state
        await self.port.flush()  # on a line that is too slow packets would pile up without end, and arrive ever later
        await self._send_all(Message(UPDATES, PeerUpdate(float(clock), rates).to_numbers(), tensors=encoded.packet))
        if self.respond is ApplyContributions:
            self._keep(float(clock), self.port.name, encoded.packet, rates)
        while not self.consistency.may_proceed(clock, min(self.clocks.values(), default=math.inf)):
            delivery = await self.port.receive(UPDATES)
            assert delivery is not None
            self._take(delivery)
        return await self._ready(clock)

    async def _send_all(self, message: Message) -> None:
        for step in range(1, self.group.size):
            name = self.group.members[(self.group.rank + step) % self.group.size]
            if name in self.clocks:
                await self.port.send(name, message)

    async def _ready(self, clock: float) -> Response:
        """All that has come and may be merged at `clock`, in the order of steps and ranks."""
        while (delivery := await self.port.receive(UPDATES, timeout=0.0)) is not None:
            self._take(delivery)
        may_merge = self.consistency.may_merge
        ready = sorted((item for item in self.pending if may_merge(item[0], clock)), key=lambda item: item[:2])
        self.pending = [item for item in self.pending if not may_merge(item[0], clock)]
        return self.respond([contribution for _, _, contribution in ready])

    def _take(self, delivery: Delivery) -> None:
        if delivery.sender == self.port.name:
            return
        if delivery.message.text == _DRAINED:
            self.drained.add(delivery.sender)
            return
        clock, rates = PeerUpdate.from_numbers(delivery.message.numbers)
        if delivery.sender in self.clocks:
            self.clocks[delivery.sender] = clock
        if delivery.message.tensors:
            self._keep(clock, delivery.sender, delivery.message.tensors, rates)

    def _keep(self, clock: float, sender: str, packet: Packet, rates: tuple[float, ...]) -> None:
        self.pending.append((clock, rank_of(sender), EncodedContribution(packet, self.codec, self.layout, rates, sender, int(clock))))

    @property
    def slowest(self) -> float:
        """As `pieces.topology.PeerChannel`."""
        return min(self.clocks.values(), default=math.inf)

    async def wake(self) -> None:
        """As `pieces.topology.PeerChannel`."""
        await self.port.send(self.port.name, Message(UPDATES))

    async def listen(self) -> Response:
        """As `pieces.topology.PeerChannel`."""
        delivery = await self.port.receive(UPDATES)
        assert delivery is not None
        self._take(delivery)
        return await self._ready(math.inf)

    async def finish(self) -> Response:
        """Send all that this was the last, and merge everything until all others have sent the same."""
        await self._send_all(Message(UPDATES, PeerUpdate(math.inf).to_numbers()))
        while min(self.clocks.values(), default=math.inf) < math.inf:
            delivery = await self.port.receive(UPDATES)
            assert delivery is not None
            self._take(delivery)
        return await self._ready(math.inf)

    async def drain(self, step: int) -> str:
        await self._send_all(Message(UPDATES, text=_DRAINED))
        while self.clocks.keys() - self.drained:
            delivery = await self.port.receive(UPDATES)
            assert delivery is not None
            self._take(delivery)
        self.drained.clear()
        return ""

    def export(self) -> StateTree:
        pending = [(clock, each.sender, each.packet, each.rates) for clock, _, each in self.pending]
        return {"codec": self.state, "clocks": self.clocks, "pending": pending}

    def restore(self, state: StateTree) -> None:
        self.state, self.clocks = state["codec"], state["clocks"]
        self.pending = []
        for clock, sender, packet, rates in state["pending"]:
            self._keep(clock, sender, packet, rates)

    def states(self) -> list[tuple[State, Tensor]]:
        return [(self.state, self.codec.residual(self.state, self.layout))] if self.layout.names else []
