"""A summation service: machines that only sum, with workers that sum what is left."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, ClassVar

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.protocols.result_source import FirstWorker
from polyrhythm.core.protocols.topology import Agreement, Channel, ServerEndpoint, ServerSide, WorkerEndpoint
from polyrhythm.core.protocols.traits import DIFFERENCES, TopologyTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout
from polyrhythm.errors import CompositionError
from polyrhythm.topology.collective.collective_client import CollectiveClient
from polyrhythm.topology.collective.vector_channel import VectorChannel
from polyrhythm.topology.families import COLLECTIVE
from polyrhythm.topology.summation.each_tensor import EachTensor
from polyrhythm.topology.summation.shares import weights
from polyrhythm.topology.summation.sum_server import SumServer
from polyrhythm.topology.summation.summation_client import SummationClient
from polyrhythm.topology.summation.summation_records import StretchSums
from polyrhythm.topology.summation.summation_source import SummationSource


@dataclass(frozen=True, slots=True)
@checked
class Summation:
    """Sums are made by `spares` servers, and by the workers for what is left, so that all lines are busy (BytePS; Jiang et al., 2020).

    With P workers and k spares of them a worker's line carries 2 P (P - 1) / (P² + k P - 2 k) of the vector each way: 2 (P - 1) / P as in
    an all-reduce for none, 1 for as many as there are workers; more than that are refused. Servers only sum: each worker runs its
    optimizer. Vectors go in pieces of at most `nbytes`, so that sums come back while other pieces leave. Sums have the bits of `Direct`
    and `Ring`, on whichever machine they are made.
    """

    traits: ClassVar = TopologyTraits(DIFFERENCES, "collectively", COLLECTIVE)
    result: ClassVar = FirstWorker()

    spares: int = 0
    nbytes: int = 4 * 2**20

    def __post_init__(self) -> None:
        if self.spares < 0:
            raise CompositionError(f"Summation(spares={self.spares}) is no number of machines: give 0 or more.")
        if self.nbytes < 1:
            raise CompositionError(f"Summation(nbytes={self.nbytes}) is no size: give 1 byte or more, for example 4 * 2**20.")

    def workers(self, available: int) -> int:
        return available

    @property
    def service(self) -> ServerSide | None:
        return _Spares(self.spares) if self.spares else None

    def source(self, agreement: Agreement, endpoint: WorkerEndpoint) -> SummationSource:
        """The source of sums of single tensors."""
        return SummationSource(agreement, endpoint, SummationClient(endpoint, self.nbytes))

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        sums = SummationClient(endpoint, self.nbytes)
        client = CollectiveClient(sums, agreement.codec, endpoint)
        return VectorChannel(client, endpoint, sums, collective=client)

    def deferred(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        """A channel of whose single tensors the next forward pass may wait."""
        return EachTensor(agreement, endpoint, self.source(agreement, endpoint), defers=True)


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


EXAMPLES = (Summation(0), Summation(1, nbytes=16))
