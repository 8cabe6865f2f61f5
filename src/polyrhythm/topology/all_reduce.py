"""All workers get the sum over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.pieces.merge import Contribution
from polyrhythm.pieces.requests import CollectiveOperations
from polyrhythm.pieces.responses import AdoptWeights, ApplyContributions, ApplyInPlace, Response
from polyrhythm.pieces.topology import Agreement, Channel, InitialState, InPlace, WorkerEndpoint
from polyrhythm.pieces.traits import DIFFERENCES, Pattern, TopologyTraits
from polyrhythm.tensors import State
from polyrhythm.topology.algorithms.algorithm import Algorithm
from polyrhythm.topology.algorithms.broadcast import broadcast
from polyrhythm.topology.algorithms.native_first import NativeFirst
from polyrhythm.topology.algorithms.ring import Ring
from polyrhythm.topology.collective_client import CollectiveClient
from polyrhythm.trees import StateTree


@dataclass(frozen=True, slots=True)
class AllReduce:
    """Collective requests among the workers alone; `algorithm` is how sums are made: Ring, Direct, Tree, Butterfly, Fastest."""

    traits: ClassVar = TopologyTraits(DIFFERENCES, Pattern.COLLECTIVE)  # the mean of weights is the mean of what was done to equal weights
    service: ClassVar[None] = None

    algorithm: Algorithm = field(default_factory=Ring)

    def workers(self, available: int) -> int:
        """All."""
        return available

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        """A worker's side."""
        return _Equal(self.algorithm, agreement, endpoint)

    def result_actors(self, members: tuple[str, ...], servers: tuple[str, ...]) -> list[str]:
        """Worker 0, whose weights are those of all."""
        return [members[0]]

    def result(self, weights: Sequence[Tensor]) -> Tensor:
        """As they are."""
        return weights[0]


class _Equal:
    """One worker in one group with all others."""

    buckets = None
    tensors = None
    writes = None
    late = None

    def __init__(self, algorithm: Algorithm, agreement: Agreement, endpoint: WorkerEndpoint) -> None:
        self.algorithm = algorithm
        self.client = CollectiveClient(NativeFirst(algorithm), agreement.codec, endpoint)
        self.group = endpoint.group
        self.port = endpoint.port
        # one worker alone has none: what gets no gradient from anyone keeps none, and its optimizer passes over it
        self.averages = agreement.merge.traits.averages and agreement.codec.traits.verbatim and self.group.size > 1

    @property
    def in_place(self) -> InPlace | None:
        return self if self.averages else None

    @property
    def collective(self) -> CollectiveOperations | None:
        return self.client if self.group.size > 1 else None

    async def establish(self, initial: InitialState) -> Response:
        self.client.open(initial.model_state.layout, lambda: initial.model_state.weights, initial.model_state)
        return AdoptWeights(await broadcast(self.port, self.group, initial.weights(), "init"))

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        return ApplyContributions([Contribution(await self.client.sum(value, clock), self.group.size, rates=rates)])

    async def exchange_parts(self, parts: Sequence[Tensor]) -> Response:
        since = self.port.now()
        if not await self.client.reduce_in_place(parts, self.group.size, self.algorithm):
            total = await self.client.all_reduce(torch.cat(list(parts)).cpu())  # all that a verbatim codec does
            for part, summed in zip(parts, torch.split(total, [part.numel() for part in parts]), strict=True):
                torch.div(summed.to(part.device), self.group.size, out=part)
        self.port.progressed(self.client.subject, "exchange", since)
        return ApplyInPlace()

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
