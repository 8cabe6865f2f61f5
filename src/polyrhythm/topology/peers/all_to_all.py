"""Every worker sends to every other, which merges what has come when it next looks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor

from polyrhythm.core.kernel.message import Message, wire_bytes
from polyrhythm.core.protocols.codec import taken_over
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.merge import Contribution
from polyrhythm.core.protocols.offers import NOTHING
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.responses import AdoptWeights, ApplyContributions, ApplyOnTop, Response
from polyrhythm.core.protocols.result_source import FirstWorker
from polyrhythm.core.protocols.topology import Agreement, Channel, InitialState, PeerChannel, WorkerEndpoint
from polyrhythm.core.protocols.traits import DIFFERENCES, Payload, TopologyTraits
from polyrhythm.core.protocols.weights import WeightsView
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.families import PEERS
from polyrhythm.topology.peers.peer_inbox import UPDATES, PeerInbox, PeerUpdate


@dataclass(frozen=True, slots=True)
class AllToAll:
    """Each worker sends its packet to every other and merges those that have come (Strom, 2015).

    The consistency decides how long it waits for others; under Asynchronous it never does. All replicas merge the same
    contributions, in the end, but not in the same order.
    """

    traits: ClassVar = TopologyTraits(DIFFERENCES, "with all peers", PEERS)
    service: ClassVar[None] = None
    result: ClassVar = FirstWorker()

    def workers(self, available: int) -> int:
        return available

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        return _Peer(agreement, endpoint, ApplyContributions, _as_sent)


@dataclass(frozen=True, slots=True)
class Mirrors:
    """AllToAll in which an actor's updates count in full in its own weights, whatever part of them others are sent.

    Among workers it is the decentralized exchange of Addair's actors (2017); among the servers of groups that of Gaia (Hsieh et al., NSDI
    2017, section 3): copies of the weights that differ by what was not significant enough to be sent.
    """

    traits: ClassVar = TopologyTraits(frozenset({Payload.UPDATE}), "with all peers", PEERS, replicas_differ=True)
    service: ClassVar[None] = None
    result: ClassVar = FirstWorker()

    def workers(self, available: int) -> int:
        return available

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> PeerChannel:
        return _Peer(agreement, endpoint, ApplyOnTop, _applied)


@dataclass(frozen=True, slots=True)
class PartialExchange:
    """AllToAll in which a worker merges its own contribution whole, with those that have come, whatever part of it others are sent.

    With Ranges it is the partial gradient exchange of Ako (Watcharapichat et al., SoCC 2016).
    """

    traits: ClassVar = TopologyTraits(DIFFERENCES, "with all peers", PEERS, replicas_differ=True)
    service: ClassVar[None] = None
    result: ClassVar = FirstWorker()

    def workers(self, available: int) -> int:
        return available

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        return _Peer(agreement, endpoint, ApplyContributions, _whole)


Respond = type[ApplyContributions] | type[ApplyOnTop]
Keep = Callable[[PeerInbox, Contribution, Packet], None]
"""Treats the worker's own contribution, of which others were sent a packet."""


def _as_sent(inbox: PeerInbox, own: Contribution, packet: Packet) -> None:
    inbox.keep_packet(PeerUpdate(float(own.clock), own.rates, own.samples), own.sender, packet)


def _whole(inbox: PeerInbox, own: Contribution, packet: Packet) -> None:
    inbox.keep(own)


def _applied(inbox: PeerInbox, own: Contribution, packet: Packet) -> None:
    """The worker's optimizer has applied it."""


class _Peer:
    """Every packet goes to all; `respond` makes a response of those that have come, and `keep` treats the worker's own."""

    offers = NOTHING

    def __init__(self, agreement: Agreement, endpoint: WorkerEndpoint, respond: Respond, keep: Keep) -> None:
        self.respond = respond
        self.keep = keep
        self.inbox = PeerInbox(agreement, endpoint)
        self.codec = self.inbox.codec
        self.port = endpoint.port
        self.context = ExchangeContext(endpoint.group, self.port.rng("codec"))
        self.model_state: WeightsView
        self.state: State = {}

    async def establish(self, initial: InitialState) -> Response:
        self.model_state = initial.model_state
        self.state = self.codec.initial(initial.model_state.layout)
        self.context = replace(self.context, controls=initial.controls)
        return AdoptWeights(await self.inbox.establish(initial))

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        inbox = self.inbox
        context = self.context.at(clock, lambda: self.model_state.weights, self.model_state.factors)
        encoded = self.codec.encode(value, inbox.layout, self.state, context)
        self.state = encoded.state
        await self.port.flush()  # on a line that is too slow packets would pile up without end, and arrive ever later
        update = inbox.update(clock, rates, self.model_state)
        message = Message(UPDATES, update.to_numbers(), tensors=encoded.packet)
        await inbox.send_all(message)
        if self.context.controls.measures:
            await self.port.spawn("measures", self._measure(len(inbox.peers) * wire_bytes(message), self.port.now()))
        self.keep(inbox, Contribution(value, 1, 0, rates, self.port.name, clock, update.samples or 0.0), encoded.packet)
        await inbox.await_turn(clock)
        return self.respond(await inbox.ready(clock))

    async def _measure(self, nbytes: int, since: float) -> None:
        self.context.controls.leaves("", nbytes)
        rate = await self.port.flush(rated=True)
        self.context.controls.sent("", nbytes, nbytes / rate if rate else self.port.now() - since)

    @property
    def slowest(self) -> float:
        return self.inbox.slowest

    def may_proceed(self, clock: int) -> bool:
        return self.inbox.may_proceed(clock, self.inbox.slowest)

    async def wake(self) -> None:
        await self.inbox.wake()

    async def listen(self) -> Response:
        await self.inbox.receive()
        return self.respond(await self.inbox.ready(math.inf))

    async def finish(self) -> Response:
        return self.respond(await self.inbox.finish())

    async def drain(self, step: int) -> str:
        await self.inbox.drain()
        return ""

    def export(self) -> StateTree:
        return {"codec": self.state, "inbox": self.inbox.export()}

    def restore(self, state: StateTree) -> None:
        self.state = state["codec"]
        self.inbox.restore(state["inbox"])

    def take_over(self, state: StateTree, own: bool) -> None:
        """With all that has come and is not merged: the weights of a worker that joins do not have it either."""
        (self.state,) = taken_over(self.codec, [state["codec"]], [self.inbox.layout], own)
        self.inbox.restore(state["inbox"])

    def inherit(self, residual: Tensor) -> None:
        self.state = self.codec.inherit(self.state, residual, self.inbox.layout)

    def states(self) -> list[tuple[State, Tensor]]:
        layout = self.inbox.layout
        return [(self.state, self.codec.residual(self.state, layout))] if layout.names else []
