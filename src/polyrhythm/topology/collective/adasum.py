"""Workers whose contributions are combined by pairs, so that what they agree on counts once and what they do not adds up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.result_source import FirstWorker
from polyrhythm.core.protocols.topology import Agreement, Channel, WorkerEndpoint
from polyrhythm.core.protocols.traits import DIFFERENCES, TopologyTraits
from polyrhythm.topology.collective.algorithms.adaptive_sum import AdaptiveSum
from polyrhythm.topology.collective.collective_client import CollectiveClient
from polyrhythm.topology.collective.vector_channel import NoServers, VectorChannel


@dataclass(frozen=True, slots=True)
class Adasum:
    """Combine g1 and g2 to (1 - g1·g2 / 2 |g1|²) g1 + (1 - g1·g2 / 2 |g2|²) g2, tensor by tensor, recursively (Maleki et al., MLSys 2021).

    Orthogonal contributions are added, equal ones averaged. The result stands for the mean of all: under `Mean()` weights move by it.
    Only codecs whose requests are sums of whole values can be used. Any number of workers; powers of two need the fewest messages.
    """

    traits: ClassVar = TopologyTraits(
        DIFFERENCES,
        "collectively, by pairs",
        frozenset({Capability.VALUES, Capability.WAITING, Capability.MERGING, Capability.OWN_WEIGHTS}),
    )
    service: ClassVar[None] = None
    result: ClassVar = FirstWorker()

    def workers(self, available: int) -> int:
        return available

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        sums = _ByPairs()
        sums.client = CollectiveClient(sums, agreement.codec, endpoint)
        return VectorChannel(sums.client, endpoint, NoServers())


class _ByPairs:
    """The adaptive sum of whatever vector the `client` sums, whose layout is known when the run begins."""

    client: CollectiveClient

    async def reduce(self, port: Port, group: Group, value: Tensor, topic: str) -> Tensor:
        return await AdaptiveSum(self.client.layout).reduce(port, group, value, topic)
