"""One worker in one group with all others, whose vectors are summed whole, in `optimizer.step()`."""

from __future__ import annotations

from torch import Tensor

from polyrhythm.pieces.merge import Contribution
from polyrhythm.pieces.requests import CollectiveOperations
from polyrhythm.pieces.responses import AdoptWeights, ApplyContributions, Response
from polyrhythm.pieces.topology import Agreement, InitialState, InPlace, Late, WorkerEndpoint
from polyrhythm.tensors import State
from polyrhythm.topology.algorithms.algorithm import AnyReduction
from polyrhythm.topology.algorithms.broadcast import broadcast
from polyrhythm.topology.collective_client import CollectiveClient
from polyrhythm.trees import StateTree


class VectorChannel:
    """Every exchange is one sum by `reduction`, which is there when it returns."""

    buckets = None
    tensors = None
    writes = None

    def __init__(self, agreement: Agreement, endpoint: WorkerEndpoint, reduction: AnyReduction) -> None:
        self.client = CollectiveClient(reduction, agreement.codec, endpoint)
        self.group = endpoint.group
        self.port = endpoint.port

    @property
    def in_place(self) -> InPlace | None:
        return None

    @property
    def late(self) -> Late | None:
        return None

    @property
    def collective(self) -> CollectiveOperations | None:
        return self.client if self.group.size > 1 else None

    async def establish(self, initial: InitialState) -> Response:
        self.client.open(initial.model_state.layout, lambda: initial.model_state.weights, initial.model_state)
        return AdoptWeights(await broadcast(self.port, self.group, initial.weights(), "init"))

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        return ApplyContributions([Contribution(await self.client.sum(value, clock), self.group.size, rates=rates)])

    async def finish(self) -> Response:
        return ApplyContributions([])

    async def drain(self, step: int) -> str:
        return ""  # every exchange has brought what was sent for it

    def export(self) -> StateTree:
        return self.client.export()

    def restore(self, state: StateTree) -> None:
        self.client.restore(state)

    def states(self) -> list[tuple[State, Tensor]]:
        return self.client.states()
