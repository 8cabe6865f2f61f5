"""All workers get the sum over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.pieces.responses import ApplyInPlace, Response
from polyrhythm.pieces.result import FirstWorker
from polyrhythm.pieces.topology import Agreement, Channel, InPlace, WorkerEndpoint
from polyrhythm.pieces.traits import DIFFERENCES, Pattern, TopologyTraits
from polyrhythm.topology.algorithms.algorithm import Algorithm
from polyrhythm.topology.algorithms.native_first import NativeFirst
from polyrhythm.topology.algorithms.ring import Ring
from polyrhythm.topology.vector_channel import VectorChannel


@dataclass(frozen=True, slots=True)
class AllReduce:
    """Collective requests among the workers alone; `algorithm` is how sums are made: Ring, Direct, Tree, Butterfly, Fastest."""

    traits: ClassVar = TopologyTraits(DIFFERENCES, Pattern.COLLECTIVE)  # the mean of weights is the mean of what was done to equal weights
    service: ClassVar[None] = None
    result: ClassVar = FirstWorker()

    algorithm: Algorithm = field(default_factory=Ring)

    def workers(self, available: int) -> int:
        """All."""
        return available

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        """A worker's side."""
        return _Equal(self.algorithm, agreement, endpoint)


class _Equal(VectorChannel):
    """One worker in one group with all others."""

    def __init__(self, algorithm: Algorithm, agreement: Agreement, endpoint: WorkerEndpoint) -> None:
        super().__init__(agreement, endpoint, NativeFirst(algorithm))
        self.algorithm = algorithm
        # one worker alone has none: what gets no gradient from anyone keeps none, and its optimizer passes over it
        self.averages = agreement.merge.traits.averages and agreement.codec.traits.verbatim and self.group.size > 1

    @property
    def in_place(self) -> InPlace | None:
        return self if self.averages else None

    async def exchange_parts(self, parts: Sequence[Tensor]) -> Response:
        since = self.port.now()
        if not await self.client.reduce_in_place(parts, self.group.size, self.algorithm):
            total = await self.client.all_reduce(torch.cat(list(parts)).cpu())  # all that a verbatim codec does
            for part, summed in zip(parts, torch.split(total, [part.numel() for part in parts]), strict=True):
                torch.div(summed.to(part.device), self.group.size, out=part)
        self.port.progressed(self.client.subject, "exchange", since)
        return ApplyInPlace()
