"""Weights in memory that all workers of a host share, and write without locks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from polyrhythm.core.protocols.offers import NOTHING, Offers
from polyrhythm.core.protocols.responses import ApplyContributions, PlaceWeights, Response
from polyrhythm.core.protocols.result_source import FirstWorker
from polyrhythm.core.protocols.topology import Agreement, Channel, InitialState, WorkerEndpoint
from polyrhythm.core.protocols.traits import Payload, TopologyTraits
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.families import IN_MEMORY
from polyrhythm.topology.lock_free.host_memory import HostMemory, refuse_device
from polyrhythm.topology.lock_free.row_counters import RowCounters


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """All workers read and write the same weights, without locks, and wait for nobody (Hogwild!; Niu et al., NIPS 2011).

    For workers of one host that compute on its CPU. The state of an optimizer stays with its worker. Each row of the weights has
    a counter, which every writer increments in the same way, and one for each row and worker: how far these differ at the
    end is how many writes were lost (in real processes; virtual time makes one step's writes at a time).
    """

    traits: ClassVar = TopologyTraits(frozenset({Payload.NOTHING}), "in shared memory", IN_MEMORY)
    service: ClassVar[None] = None
    result: ClassVar = FirstWorker()

    def workers(self, available: int) -> int:
        return available

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        return _SharedChannel(endpoint)


class _SharedChannel:
    """`shared` are the weights (numel,)."""

    def __init__(self, endpoint: WorkerEndpoint) -> None:
        self.group = endpoint.group
        self.port = endpoint.port
        self.memory = HostMemory(endpoint)
        self.shared: Tensor
        self.counters: RowCounters
        self.offers = NOTHING

    async def establish(self, initial: InitialState) -> Response:
        weights, layout = initial.model_state.weights, initial.model_state.layout
        refuse_device(weights, self.port.name, SharedMemory())
        nbytes = weights.numel() * weights.element_size()
        first, end = RowCounters.place(nbytes, sum(layout.rows), self.group.size)
        content = await self.memory.open(end, lambda memory: memory[:nbytes].view(weights.dtype).copy_(weights))
        self.shared = content[:nbytes].view(weights.dtype)
        self.counters = RowCounters(content[first:], self.group)
        return PlaceWeights(self.shared, owned=self.group.is_first)

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        self.counters.count(value)
        return ApplyContributions([])

    async def finish(self) -> Response:
        """Wait until nobody writes any more; then everyone takes a copy."""
        await self.memory.end()
        if self.group.is_first and self.memory.concurrent:
            self.offers = Offers(writes=self.counters.writes())
        return PlaceWeights(self.shared.clone())

    async def drain(self, step: int) -> str:
        """Nothing is under way: between two steps nobody writes."""
        return ""

    def export(self) -> StateTree:
        return self.counters.export()

    def restore(self, state: StateTree) -> None:
        self.counters.restore(state)

    def take_over(self, state: StateTree, own: bool) -> None:
        """Writes are counted anew; the first worker has restored the weights."""

    def inherit(self, residual: Tensor) -> None:
        """No codec keeps anything back."""

    def states(self) -> list[tuple[State, Tensor]]:
        """Nothing is encoded, and nothing kept back."""
        return []
