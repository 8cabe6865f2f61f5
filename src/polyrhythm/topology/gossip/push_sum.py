"""Push-sum: workers send parts of their weights, and the same parts of a mass, so that directed graphs lose no balance."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.core.collectives.broadcast import broadcast
from polyrhythm.core.collectives.tree import Tree
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.offers import NOTHING
from polyrhythm.core.protocols.responses import AdoptWeights, Response
from polyrhythm.core.protocols.result_source import AllWorkers
from polyrhythm.core.protocols.topology import Agreement, Channel, InitialState, WorkerEndpoint
from polyrhythm.core.protocols.traits import Payload, TopologyTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.errors import CompositionError
from polyrhythm.topology.gossip.vector_encoder import VectorEncoder
from polyrhythm.topology.graphs.graph import Dissemination, Graph


def _one_peer() -> Graph:
    return Dissemination(rotate=False)


@dataclass(frozen=True, slots=True)
@checked
class PushSum:
    """A worker keeps one share of its weights and of its mass, and sends one to each of those whom `graph` names (Kempe et al., 2003).

    Shares are equal, and received ones added. Weights divided by mass are what the worker computes on (stochastic gradient push; Assran,
    Loizou, Ballas, Rabbat, ICML 2019, algorithm 1). Weights and mass that all hold, or that are under way, change by the workers' steps
    alone, and come to one mean on any graph over whose steps there is a way from everyone to everyone. With `overlap` a worker takes at
    exchange t what was sent at t - overlap, so that it is under way while it computes (algorithm 2). What a codec does not send stays
    with the sender. The run ends with all weights over all mass.
    """

    traits: ClassVar = TopologyTraits(
        frozenset({Payload.WEIGHTS}), "by push-sum", frozenset({Capability.PACKETS, Capability.VALUES, Capability.SUMS, Capability.WAITING})
    )
    service: ClassVar[None] = None
    result: ClassVar = AllWorkers()

    graph: Graph = field(default_factory=_one_peer)
    overlap: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.overlap, bool) or not isinstance(self.overlap, int) or self.overlap < 0:
            raise CompositionError(f"PushSum(overlap={self.overlap!r}) is no number of exchanges: give 0 or more.")

    def workers(self, available: int) -> int:
        """All, if the graph has room for them."""
        self.graph.check(available)
        return available

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        return _Pusher(self, agreement, endpoint)


@dataclass(slots=True)
class _Held:
    """`weights` (numel,), never written to, and the `mass` by which they are divided; of a share, the `rank` of its sender."""

    weights: Tensor
    mass: float = 1.0
    rank: int = 0

    def plus(self, others: list[_Held]) -> _Held:
        """Everything added up, in the order given."""
        weights, mass = self.weights, self.mass
        for other in others:
            weights, mass = weights + other.weights, mass + other.mass
        return _Held(weights, mass)

    @property
    def unbiased(self) -> Tensor:
        """The weights over the mass, on which the worker computes."""
        return self.weights if self.mass == 1 else self.weights / self.mass


class _Pusher:
    """`exchanges` were started, and their number, from 0, is the topic; `taken` of them are added.

    `came` has the shares of others that are not added yet, and `sent` the worker's own of the exchanges that it has not taken: if the crew
    changes these are under way, and stay with their sender.
    """

    offers = NOTHING

    def __init__(self, settings: PushSum, agreement: Agreement, endpoint: WorkerEndpoint) -> None:
        self.settings = settings
        self.coded = VectorEncoder(agreement, endpoint)
        self.group = endpoint.group
        self.port = endpoint.port
        self.held: _Held
        self.given: Tensor
        self.exchanges = 0
        self.taken = 0
        self.came: dict[int, list[_Held]] = {}
        self.sent: dict[int, _Held] = {}

    async def establish(self, initial: InitialState) -> Response:
        self.given = await broadcast(self.port, self.group, initial.agreed(), "init")
        self.coded.open(initial.model_state.layout)
        self.held = _Held(self.given)
        return AdoptWeights(self.given)

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        stepped = value.clone() if self.held.weights is self.given else value + (self.held.weights - self.given)
        self.held, self.given = await self._push(_Held(stepped, self.held.mass), value, clock), value
        self.exchanges += 1
        await self._take(self.exchanges - self.settings.overlap)
        self.given = self.held.unbiased
        return AdoptWeights(self.given)

    async def _push(self, held: _Held, value: Tensor, clock: int) -> _Held:
        """Send others their shares. Returns what is left."""
        receivers, _ = self.settings.graph.neighbours(self.exchanges, self.group)
        if not receivers:
            return held
        encoded = self.coded.encode(held.weights / (1 + len(receivers)), clock, lambda: value)
        mass = held.mass / (1 + len(receivers))
        for rank in receivers:
            await self.port.send(self.group.members[rank], Message(str(self.exchanges), (mass,), tensors=encoded.packet))
        sent = self.sent[self.exchanges] = _Held(len(receivers) * encoded.sent, len(receivers) * mass)
        return _Held(held.weights - sent.weights, held.mass - sent.mass)

    async def _take(self, end: int) -> None:
        """Add what was sent in exchanges before number `end`, as far as it was not added yet."""
        while self.taken < end:
            await self._receive(self.taken)
            self.held = self.held.plus(self.came.pop(self.taken))
            self.sent.pop(self.taken, None)
            self.taken += 1

    async def _receive(self, exchange: int) -> None:
        """Have everything in `came` that this worker is sent in `exchange`, in the order of ranks."""
        shares = self.came.setdefault(exchange, [])
        for rank in self.settings.graph.neighbours(exchange, self.group)[1][len(shares) :]:
            delivery = await self.port.receive(str(exchange), self.group.members[rank])
            assert delivery is not None
            share = self.coded.decode(delivery.message.tensors)
            shares.append(_Held(share, delivery.message.numbers[0], rank_of(delivery.sender)))
        shares.sort(key=attrgetter("rank"))

    async def finish(self) -> Response:
        await self._take(self.exchanges)
        held = torch.cat([self.held.weights, self.held.weights.new_tensor([self.held.mass])])
        total = await Tree().reduce(self.port, self.group, held, "mean")
        return AdoptWeights(total[:-1] / total[-1])

    async def drain(self, step: int) -> str:
        for exchange in range(self.taken, self.exchanges):
            await self._receive(exchange)
        return ""

    def export(self) -> StateTree:
        came = [(exchange, [(share.weights, share.mass, share.rank) for share in shares]) for exchange, shares in self.came.items()]
        held = (self.held.weights, self.held.mass, self.given)
        sent = [(exchange, share.weights, share.mass) for exchange, share in self.sent.items()]
        counts = {"exchanges": self.exchanges, "taken": self.taken}
        return {**counts, "codec": self.coded.state, "held": held, "came": came, "sent": sent}

    def restore(self, state: StateTree) -> None:
        self.exchanges, self.taken, self.coded.state = state["exchanges"], state["taken"], state["codec"]
        weights, mass, self.given = state["held"]
        self.held = _Held(weights, mass)
        self.came = {exchange: [_Held(*share) for share in shares] for exchange, shares in state["came"]}
        self.sent = {exchange: _Held(*share) for exchange, *share in state["sent"]}

    def take_over(self, state: StateTree, own: bool) -> None:
        """With the shares that are under way, which nobody takes any more; everybody begins with a mass of 1."""
        self.coded.take_over(state["codec"], own)
        weights, mass, self.given = state["held"]
        rest = [_Held(*share) for _, *share in state["sent"]]
        self.held = _Held(_Held(weights, mass).plus(rest).unbiased)

    def inherit(self, residual: Tensor) -> None:
        self.coded.inherit(residual)

    def states(self) -> list[tuple[State, Tensor]]:
        return [(state, torch.zeros_like(kept)) for state, kept in self.coded.states()]  # what was not sent is in the weights
