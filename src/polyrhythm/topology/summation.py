"""A summation service: machines that only sum, beside workers that sum what is left."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from polyrhythm.errors import CompositionError
from polyrhythm.kernel.effects import Effect
from polyrhythm.pieces.merge import Contribution
from polyrhythm.pieces.requests import CollectiveOperations
from polyrhythm.pieces.responses import AdoptWeights, ApplyContributions, Response
from polyrhythm.pieces.topology import Agreement, Channel, InitialState, ServerEndpoint, ServerSide, WorkerEndpoint
from polyrhythm.pieces.traits import DIFFERENCES, Pattern, TopologyTraits
from polyrhythm.tensors import Layout, State
from polyrhythm.topology.algorithms.broadcast import broadcast
from polyrhythm.topology.collective_client import CollectiveClient
from polyrhythm.topology.shares import weights
from polyrhythm.topology.sum_server import SumServer
from polyrhythm.topology.summation_client import SummationClient
from polyrhythm.topology.summation_records import StretchSums
from polyrhythm.topology.summation_source import SummationSource
from polyrhythm.trees import StateTree


@dataclass(frozen=True, slots=True)
class Summation:
    """Sums are made by `spares` servers, and by the workers for what is left, so that all lines are busy (BytePS; Jiang et al., 2020).

    With P workers and k spares of them a worker's line carries 2 P (P - 1) / (P² + k P - 2 k) of the vector each way: 2 (P - 1) / P as in
    an all-reduce for none, 1 for as many as there are workers; more than that are refused. Servers only sum: each worker runs its
    optimizer. Vectors go in pieces of at most `nbytes`, so that sums come back while other pieces leave. Sums have the bits of `Direct`
    and `Ring`, whoever makes them.
    """

    traits: ClassVar = TopologyTraits(DIFFERENCES, Pattern.COLLECTIVE)

    spares: int = 0
    nbytes: int = 4 * 2**20

    def __post_init__(self) -> None:
        if self.spares < 0:
            raise CompositionError(f"Summation(spares={self.spares}) is no number of machines: give 0 or more.")
        if self.nbytes < 1:
            raise CompositionError(f"Summation(nbytes={self.nbytes}) is no size: give 1 byte or more, for example 4 * 2**20.")

    def workers(self, available: int) -> int:
        """All."""
        return available

    @property
    def service(self) -> ServerSide | None:
        """The spares."""
        return _Spares(self.spares) if self.spares else None

    def source(self, agreement: Agreement, endpoint: WorkerEndpoint) -> SummationSource:
        """Of sums of single tensors."""
        return SummationSource(agreement, endpoint, SummationClient(endpoint, self.nbytes))

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        """A worker's side."""
        return _Whole(agreement, endpoint, SummationClient(endpoint, self.nbytes))

    def result_actors(self, members: tuple[str, ...], servers: tuple[str, ...]) -> list[str]:
        """Worker 0, whose weights are those of all."""
        return [members[0]]

    def result(self, weights: Sequence[Tensor]) -> Tensor:
        """As they are."""
        return weights[0]


@dataclass(frozen=True, slots=True)
class _Spares:
    spares: int

    def count(self, workers: int) -> int:
        weights(workers, self.spares)  # refuses too many
        return self.spares

    def parts(self, layout: Layout, servers: int) -> list[Layout]:
        return [Layout((), ())] * servers  # they keep nothing

    def serve(self, agreement: Agreement, endpoint: ServerEndpoint) -> Coroutine[Effect[Any], Any, None]:
        return SumServer(endpoint, StretchSums(endpoint)).live()


class _Whole:
    """The whole vector at once, in `optimizer.step()`."""

    buckets = None
    in_place = None
    tensors = None
    writes = None
    late = None

    def __init__(self, agreement: Agreement, endpoint: WorkerEndpoint, sums: SummationClient) -> None:
        self.group = endpoint.group
        self.port = endpoint.port
        self.sums = sums
        self.client = CollectiveClient(sums, agreement.codec, endpoint)

    @property
    def collective(self) -> CollectiveOperations | None:
        return self.client if self.group.size > 1 else None

    async def establish(self, initial: InitialState) -> Response:
        self.client.open(initial.model_state.layout, lambda: initial.model_state.weights, initial.model_state)
        return AdoptWeights(await broadcast(self.port, self.group, initial.weights(), "init"))

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        return ApplyContributions([Contribution(await self.client.sum(value, clock), self.group.size, rates=rates)])

    async def finish(self) -> Response:
        await self.sums.finish()
        return ApplyContributions([])

    async def drain(self, step: int) -> str:
        return await self.sums.drain(step)

    def export(self) -> StateTree:
        return self.client.export()

    def restore(self, state: StateTree) -> None:
        self.client.restore(state)

    def states(self) -> list[tuple[State, Tensor]]:
        return self.client.states()
