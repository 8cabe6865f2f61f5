"""Every worker sends to every other what their link carries: each receiver gets separate packets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from polyrhythm.core.protocols.merge import Contribution
from polyrhythm.core.protocols.offers import NOTHING
from polyrhythm.core.protocols.responses import AdoptWeights, ApplyContributions, Response
from polyrhythm.core.protocols.result_source import FirstWorker
from polyrhythm.core.protocols.topology import Agreement, Channel, InitialState, WorkerEndpoint
from polyrhythm.core.protocols.traits import DIFFERENCES, TopologyTraits
from polyrhythm.core.protocols.weights import WeightsView
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.families import PEERS
from polyrhythm.topology.peers.link_sender import LinkSender
from polyrhythm.topology.peers.peer_inbox import PeerInbox


@dataclass(frozen=True, slots=True)
class LinkExchange:
    """Each worker encodes what it computes for each receiver separately, and sends when the link to that one is free.

    What is computed while a link is busy is added up and sent as one. A worker merges its own contribution whole, as one among those that
    have come, so replicas differ by what was not sent (DLion, HPDC 2021; Hong and Chandra, 2018). The bandwidth of each link is measured.
    """

    traits: ClassVar = TopologyTraits(DIFFERENCES, "with all peers", PEERS, replicas_differ=True)
    service: ClassVar[None] = None
    result: ClassVar = FirstWorker()

    def workers(self, available: int) -> int:
        return available

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        return _Sender(agreement, endpoint)


class _Sender:
    offers = NOTHING

    def __init__(self, agreement: Agreement, endpoint: WorkerEndpoint) -> None:
        self.inbox = PeerInbox(agreement, endpoint)
        self.group = endpoint.group
        self.port = endpoint.port
        self.senders: dict[str, LinkSender] = {}
        self.model_state: WeightsView

    async def establish(self, initial: InitialState) -> Response:
        self.model_state = initial.model_state
        weights = await self.inbox.establish(initial)
        self.senders = {name: LinkSender(name, self.inbox, initial, self.group) for name in self.inbox.peers}
        return AdoptWeights(weights)

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        update = self.inbox.update(clock, rates, self.model_state)
        for name in self.inbox.peers:
            await self.senders[name].put(value, update)
        self.inbox.keep(Contribution(value, 1, 0, rates, self.port.name, clock, update.samples or 0.0))
        await self.inbox.await_turn(clock)
        return ApplyContributions(await self.inbox.ready(clock))

    async def finish(self) -> Response:
        await self._empty()
        return ApplyContributions(await self.inbox.finish())

    async def drain(self, step: int) -> str:
        await self._empty()
        await self.inbox.drain()
        return ""

    async def _empty(self) -> None:
        for name in self.inbox.peers:
            await self.senders[name].drain()

    def export(self) -> StateTree:
        return {"inbox": self.inbox.export(), "lanes": {name: sender.export() for name, sender in self.senders.items()}}

    def restore(self, state: StateTree) -> None:
        self.inbox.restore(state["inbox"])
        for name, sender in state["lanes"].items():
            self.senders[name].restore(sender)

    def take_over(self, state: StateTree, own: bool) -> None:
        """With what is kept for those that are still there; for others, and at a worker that joins, nothing is kept yet."""
        self.inbox.restore(state["inbox"])
        for name, sender in self.senders.items():
            if own and name in state["lanes"]:
                sender.restore(state["lanes"][name])

    def inherit(self, residual: Tensor) -> None:
        for sender in self.senders.values():
            sender.state = self.inbox.codec.inherit(sender.state, residual, self.inbox.layout)

    def states(self) -> list[tuple[State, Tensor]]:
        return [(sender.state, sender.residual()) for sender in self.senders.values()]
