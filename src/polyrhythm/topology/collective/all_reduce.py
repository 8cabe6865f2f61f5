"""All-reduce: all workers get the sum over all of them. `Bucketed`, `Delayed`, `Fused` and `Keyed` wrap it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.core.kernel.effects import Rounding
from polyrhythm.core.protocols.algorithm import Algorithm
from polyrhythm.core.protocols.responses import ApplyInPlace, Response
from polyrhythm.core.protocols.result_source import FirstWorker
from polyrhythm.core.protocols.topology import Agreement, Channel, WorkerEndpoint
from polyrhythm.core.protocols.traits import DIFFERENCES, TopologyTraits
from polyrhythm.core.settings import checked
from polyrhythm.topology.collective.algorithms.native_first import NativeFirst
from polyrhythm.topology.collective.algorithms.ring import Ring
from polyrhythm.topology.collective.collective_client import CollectiveClient
from polyrhythm.topology.collective.vector_channel import NoServers, VectorChannel
from polyrhythm.topology.families import COLLECTIVE
from polyrhythm.topology.own_gradient import OwnGradient


@dataclass(frozen=True, slots=True)
@checked
class AllReduce:
    """Collective requests among the workers alone; `algorithm` makes the sums: Ring, Direct, Tree, Butterfly, Fastest."""

    service: ClassVar[None] = None
    result: ClassVar = FirstWorker()

    algorithm: Algorithm = field(default_factory=Ring)

    @property
    def traits(self) -> TopologyTraits:
        """Sums among all workers."""
        rounds = self.algorithm.rounding is not Rounding.NONE
        return TopologyTraits(DIFFERENCES, "collectively", COLLECTIVE, rounds=rounds)  # a mean of weights is that of changes to equal ones

    def workers(self, available: int) -> int:
        return available

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        client = CollectiveClient(NativeFirst(self.algorithm), agreement.codec, endpoint)
        averages = agreement.merge.traits.averages and agreement.codec.traits.verbatim
        own = OwnGradient() if endpoint.group.size == 1 else _MeanInPlace(client, endpoint, self.algorithm)
        in_place = own if averages else None
        return VectorChannel(client, endpoint, NoServers(), collective=client, in_place=in_place)


@dataclass(frozen=True, slots=True)
class _MeanInPlace:
    """Means of gradients by `client`, made in place where the runtime can."""

    client: CollectiveClient
    endpoint: WorkerEndpoint
    algorithm: Algorithm
    sends: ClassVar = True

    async def exchange_parts(self, parts: Sequence[Tensor]) -> Response:
        port, workers = self.endpoint.port, self.endpoint.group.size
        since = port.now()
        if not await self.client.reduce_in_place(parts, workers, self.algorithm):
            total = await self.client.all_reduce(torch.cat(list(parts)).cpu())  # all that a verbatim codec does
            for part, summed in zip(parts, torch.split(total, [part.numel() for part in parts]), strict=True):
                torch.div(summed.to(part.device), workers, out=part)
        if port.details:
            port.progressed(self.client.subject, "exchange", since)
        return ApplyInPlace()
