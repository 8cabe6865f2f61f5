"""An all-reduce for each tensor, distinguished by keys, so that they may start in any order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.result_source import FirstWorker
from polyrhythm.core.protocols.topology import Agreement, Channel, WorkerEndpoint
from polyrhythm.core.protocols.traits import Payload, TopologyTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.trees import StateTree
from polyrhythm.errors import CompositionError
from polyrhythm.topology.collective.all_reduce import AllReduce
from polyrhythm.topology.collective.collective_client import CollectiveClient
from polyrhythm.topology.collective.tensor_channel import TensorChannel, TensorSum
from polyrhythm.topology.families import COLLECTIVE


@dataclass(frozen=True, slots=True)
@checked
class Keyed:
    """Begin an all-reduce of each tensor as soon as backward() has computed it (TensorFlow's CollectiveAllReduce, 2018).

    All its messages carry a group key, the name of the group, and an instance key: the tensor's number, counted from the last of the
    layout, and that of the request. So they are under way at the same time, in an order that may differ between workers, and none waits
    for a worker that has started with another. There is one backward() to each optimizer.step(), and nobody changes gradients between the
    two. Raises CompositionError where something else than an all-reduce is wrapped.
    """

    service: ClassVar[None] = None
    result: ClassVar = FirstWorker()

    topology: AllReduce = field(default_factory=AllReduce)

    def __post_init__(self) -> None:
        if not isinstance(self.topology, AllReduce):  # not a choice between pieces: what is annotated, for those who do not check types
            raise CompositionError(f"Keyed({self.topology!r}) is for sums of gradients, tensor by tensor: give it AllReduce(...).")

    @property
    def traits(self) -> TopologyTraits:
        """Sums of single tensors."""
        return TopologyTraits(frozenset({Payload.GRADIENT}), "collectively", COLLECTIVE, rounds=self.topology.traits.rounds)

    def workers(self, available: int) -> int:
        return self.topology.workers(available)

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        return TensorChannel(agreement, endpoint, self.topology.algorithm, _AtOnce(endpoint.port))


class _AtOnce:
    """Starts each sum when its tensor has come; the messages of a sum are matched by their topics."""

    def __init__(self, port: Port) -> None:
        self.port = port

    def open(self, clients: Sequence[CollectiveClient]) -> None:
        return None

    async def launch(self, number: int, tensor: TensorSum) -> None:
        await self.port.spawn(f"tensor {number}", self._sum(tensor))

    async def conclude(self) -> None:
        return None

    async def _sum(self, tensor: TensorSum) -> None:
        tensor.end((await tensor.client.aggregate(tensor.value, tensor.clock)).total)

    def export(self) -> StateTree:
        return None

    def restore(self, state: StateTree) -> None:
        return None


EXAMPLES = (Keyed(AllReduce()),)
