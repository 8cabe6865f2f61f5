"""A server whose weights go down a tree of its workers, unasked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from polyrhythm.core.kernel.latch import Latch
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.view import View
from polyrhythm.core.protocols.losses import follow_losses
from polyrhythm.core.protocols.offers import NOTHING
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.responses import AdoptWeights, ApplyContributions, Response
from polyrhythm.core.protocols.result_source import Shards
from polyrhythm.core.protocols.served_weights import WeightLog
from polyrhythm.core.protocols.topology import Agreement, Channel, InitialState, ServerSide, WorkerEndpoint
from polyrhythm.core.protocols.traits import GRADIENTS, TopologyTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.core.trees import StateTree
from polyrhythm.errors import CompositionError
from polyrhythm.topology.families import SERVED
from polyrhythm.topology.servers.division import EvenRows
from polyrhythm.topology.servers.served_weights import AllWeights
from polyrhythm.topology.servers.server import Server
from polyrhythm.topology.servers.server_records import UNASKED, ShardStatus, Wanted
from polyrhythm.topology.servers.server_requests import ServerRequests


@dataclass(frozen=True, slots=True)
class _Unasked:
    """All weights, sent to the first workers of the tree."""

    fan_out: int

    def log(self, weights: Tensor, layout: Layout) -> WeightLog:
        return AllWeights().log(weights, layout)

    def unpacked(self, packet: Packet, held: Tensor, layout: Layout) -> Tensor:
        return AllWeights().unpacked(packet, held, layout)

    def receivers(self, workers: Sequence[str]) -> Sequence[str]:
        return workers[: self.fan_out]


@dataclass(frozen=True, slots=True)
@checked
class BroadcastTree:
    """New weights go from the server to `fan_out` workers, and from each of these to as many others (Rudra-adv*; Gupta et al., 2016).

    Workers push gradients to the server in the background, and take the newest weights that have come when they exchange; they wait for
    newer ones only where the consistency has it so. What is newer replaces what has not left yet. The server sends each version
    `fan_out` times instead of once to every worker.
    """

    traits: ClassVar = TopologyTraits(GRADIENTS, "with a server", SERVED)
    result: ClassVar = Shards()

    fan_out: int = 2

    def __post_init__(self) -> None:
        if not self.fan_out >= 1:
            raise CompositionError(f"BroadcastTree(fan_out={self.fan_out}) sends weights to nobody: give 1 (a chain) or more.")

    def workers(self, available: int) -> int:
        return available

    @property
    def service(self) -> ServerSide:
        return Server(1, _Unasked(self.fan_out)).service

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        return _TreeClient(self.fan_out, agreement, endpoint)


class _TreeClient:
    """`fresh` are weights that have come and were not taken over yet, of `version`; `view` has the workers that are left."""

    offers = NOTHING

    def __init__(self, fan_out: int, agreement: Agreement, endpoint: WorkerEndpoint) -> None:
        self.fan_out = fan_out
        self.conditions = agreement.conditions
        self.port = endpoint.port
        self.view = View.of(endpoint.group.members)
        self.requests = ServerRequests(agreement, endpoint, _Unasked(fan_out), EvenRows())
        self.fresh: Tensor | None = None
        self.version = 0
        self.came = Latch()

    @property
    def children(self) -> tuple[str, ...]:
        """The workers to which it forwards weights; the first workers are the server's children."""
        first = self.fan_out * (self.view.rank(self.port.name) + 1)
        return self.view.members[first : first + self.fan_out]

    async def establish(self, initial: InitialState) -> Response:
        weights = await self.requests.join(initial)
        await self.port.spawn("broadcast", self._pass_on())
        await follow_losses(self.port, self._lose)
        return AdoptWeights(weights)

    async def _lose(self, name: str) -> None:
        self.view = self.view.without(name)

    async def _pass_on(self) -> None:
        while True:
            delivery = await self.port.receive(UNASKED)
            while (newer := await self.port.receive(UNASKED, timeout=0.0)) is not None:
                delivery = newer
            assert delivery is not None
            numbers, (weights,) = delivery.message.numbers, delivery.message.tensors
            status = ShardStatus.from_numbers(numbers)
            if status.version >= self.version:  # a loss may have changed from whom they come
                self.fresh, self.version, self.requests.clocks[0] = weights, status.version, status.slowest
                self.requests.merged(0, status.slowest)
                came, self.came = self.came, Latch()
                came.open()
            for name in self.children:
                await self.port.flush(name)
                await self.port.send(name, Message(UNASKED, numbers, tensors=(weights,)))

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        await self.requests.push(value, clock, [Wanted.NOTHING], rates)
        while not self.conditions.may_proceed(clock, self.requests.clocks[0]):
            await self.port.wait(self.came)
        if self.fresh is None:
            return ApplyContributions([])
        weights, self.fresh, self.requests.versions[0] = self.fresh, None, self.version
        return AdoptWeights(weights)

    async def finish(self) -> Response:
        await self.requests.done()
        return AdoptWeights(await self.requests.responses())

    async def drain(self, step: int) -> str:
        return await self.requests.drain(step)

    def export(self) -> StateTree:
        return {"requests": self.requests.export(), "fresh": self.fresh, "version": self.version}

    def restore(self, state: StateTree) -> None:
        self.requests.restore(state["requests"])
        self.fresh, self.version = state["fresh"], state["version"]

    def take_over(self, state: StateTree, own: bool) -> None:
        self.requests.take_over(state["requests"], own)
        self.fresh, self.version = state["fresh"], state["version"]

    def inherit(self, residual: Tensor) -> None:
        self.requests.inherit(residual)

    def states(self) -> list[tuple[State, Tensor]]:
        return self.requests.states()


EXAMPLES = (BroadcastTree(), BroadcastTree(1))
