"""Servers that sum what workers push, by key, and keep no weights: every worker runs its optimizer."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, ClassVar

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.division import Division
from polyrhythm.core.protocols.result_source import FirstWorker
from polyrhythm.core.protocols.topology import Agreement, Channel, ServerEndpoint, ServerSide, WorkerEndpoint
from polyrhythm.core.protocols.traits import Payload, TopologyTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout
from polyrhythm.errors import CompositionError
from polyrhythm.topology.families import ENCODED
from polyrhythm.topology.servers.division import ByKey
from polyrhythm.topology.summation.decoded_sums import DecodedSums
from polyrhythm.topology.summation.each_tensor import EachTensor
from polyrhythm.topology.summation.pushed_sums import PushedSums
from polyrhythm.topology.summation.sum_server import SumServer


@dataclass(frozen=True, slots=True)
@checked
class ServedSums:
    """Tensors, or rows of them, are pushed encoded to the server that `division` names, which sums them and answers with the sum as it is.

    MXNet's store where workers update (`update_on_kvstore=False`; Chen et al., 2015): only what goes to servers is compressed. What is
    pushed first, and what is answered first, are the first tensors of the layout, in whatever order they come: `Deferred` lets the next
    forward pass begin with those that are there.
    """

    traits: ClassVar = TopologyTraits(
        frozenset({Payload.GRADIENT}),
        "with servers that sum",
        ENCODED | {Capability.WAITING, Capability.MERGING, Capability.MEAN, Capability.OWN_WEIGHTS},
    )
    result: ClassVar = FirstWorker()

    servers: int = 1
    division: Division = field(default_factory=ByKey)

    def __post_init__(self) -> None:
        if self.servers < 1:
            raise CompositionError(f"ServedSums(servers={self.servers}) has nobody who sums: give 1 or more, or use AllReduce().")

    def workers(self, available: int) -> int:
        return available

    @property
    def service(self) -> ServerSide:
        return _Sums(self.servers, self.division)

    def source(self, agreement: Agreement, endpoint: WorkerEndpoint) -> PushedSums:
        """The source of sums of single tensors."""
        return PushedSums(agreement, endpoint, self.division)

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        return EachTensor(agreement, endpoint, self.source(agreement, endpoint), defers=False)

    def deferred(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        """A channel of whose single tensors the next forward pass may wait."""
        return EachTensor(agreement, endpoint, self.source(agreement, endpoint), defers=True)


@dataclass(frozen=True, slots=True)
class _Sums:
    servers: int
    division: Division

    def count(self, workers: int) -> int:
        return self.servers

    def parts(self, layout: Layout, servers: int) -> list[Layout]:
        return [Layout((), ())] * servers  # they keep nothing

    def serve(self, agreement: Agreement, endpoint: ServerEndpoint) -> Coroutine[Effect[Any], Any, None]:
        return SumServer(endpoint, DecodedSums(agreement, endpoint)).live()


EXAMPLES = (ServedSums(2, ByKey(largest=10)),)
