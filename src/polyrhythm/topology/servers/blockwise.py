"""Blocks of weights that are read one after the other, and each written separately."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from polyrhythm.core.protocols.offers import NOTHING
from polyrhythm.core.protocols.responses import AdoptWeights, Response
from polyrhythm.core.protocols.result_source import Shards
from polyrhythm.core.protocols.topology import Agreement, Channel, InitialState, ServerSide, WorkerEndpoint
from polyrhythm.core.protocols.traits import Payload, TopologyTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.errors import CompositionError
from polyrhythm.topology.families import SERVED
from polyrhythm.topology.servers.server import Server
from polyrhythm.topology.servers.server_records import Wanted
from polyrhythm.topology.servers.server_requests import ServerRequests


@dataclass(frozen=True, slots=True)
@checked
class Blockwise:
    """The weights in `blocks`, read without a lock around them all (AsySG-incon; Lian et al., NIPS 2015, section 4).

    Each block is a `Server`'s shard. A worker requests the next one when the one before has come, so that others write between two of
    its reads, and what it has read were the weights at no moment: the torn read of a shared memory, made explicit and repeatable. It pushes
    to those blocks alone that its update changes, where it need not wait for others.
    """

    traits: ClassVar = TopologyTraits(frozenset({Payload.GRADIENT, Payload.UPDATE}), "with a server", SERVED)
    result: ClassVar = Shards()

    blocks: int = 4

    def __post_init__(self) -> None:
        if not self.blocks >= 1:
            raise CompositionError(f"Blockwise(blocks={self.blocks}) has nowhere to keep the weights: give 1 or more.")

    def workers(self, available: int) -> int:
        return available

    @property
    def service(self) -> ServerSide:
        """One server a block."""
        return Server(self.blocks).service

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        blocks = Server(self.blocks)
        return _BlockwiseClient(agreement, ServerRequests(agreement, endpoint, blocks.responses, blocks.division))


class _BlockwiseClient:
    offers = NOTHING

    def __init__(self, agreement: Agreement, requests: ServerRequests) -> None:
        self.waits = agreement.conditions.waits
        self.requests = requests

    async def establish(self, initial: InitialState) -> Response:
        return AdoptWeights(await self.requests.join(initial))

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        parts = self.requests.cut(value)
        written = {k: Wanted.NOTHING for k, part in enumerate(parts) if self.waits or bool(part.any())}
        await self.requests.push_to(value, clock, written, rates)
        read = [await self.requests.read(k, clock) for k in range(len(parts))]
        return AdoptWeights(self.requests.joined(read))

    async def finish(self) -> Response:
        await self.requests.done()
        return AdoptWeights(await self.requests.responses())

    async def drain(self, step: int) -> str:
        return await self.requests.drain(step)

    def export(self) -> StateTree:
        return self.requests.export()

    def restore(self, state: StateTree) -> None:
        self.requests.restore(state)

    def take_over(self, state: StateTree, own: bool) -> None:
        self.requests.take_over(state, own)

    def inherit(self, residual: Tensor) -> None:
        self.requests.inherit(residual)

    def states(self) -> list[tuple[State, Tensor]]:
        return self.requests.states()


EXAMPLES = (Blockwise(3),)
