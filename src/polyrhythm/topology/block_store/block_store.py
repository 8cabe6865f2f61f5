"""The model as one vector in slices that are held in a block store, and updated by tasks that any worker can do."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, ClassVar

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.result_source import FirstWorker
from polyrhythm.core.protocols.topology import Agreement, Channel, ServerEndpoint, ServerSide, WorkerEndpoint
from polyrhythm.core.protocols.traits import Payload, TopologyTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout
from polyrhythm.errors import CompositionError
from polyrhythm.topology.block_store.block_client import BlockClient
from polyrhythm.topology.block_store.block_server import BlockServer
from polyrhythm.topology.families import ENCODED


@dataclass(frozen=True, slots=True)
@checked
class BlockStore:
    """Gradients, weights and the optimizer's state as blocks of `slices`, one for each worker if None (BigDL; Dai et al., SoCC 2019).

    A step has two jobs. In the first each worker publishes its gradient, slice by slice. When all have, a task for each slice sums the
    gradients in the order of ranks, runs the worker's optimizer, and publishes weights and state; all get the weights. Task k is that of
    worker k. It has no state but its blocks, which are of one step: if its worker is lost, or has not published after `late` seconds,
    another does it again, with the same bits. So a worker that is lost after it has published its gradient changes nothing in that
    step; the others continue without it, each gradient still counting 1 / P. Slices are servers, each best on its worker's machine,
    which then sends and receives 2 (P - 1) / P of the model in a step.
    """

    traits: ClassVar = TopologyTraits(
        frozenset({Payload.GRADIENT}),
        "through a block store",
        ENCODED | {Capability.WAITING, Capability.MERGING, Capability.HELD_ELSEWHERE},
        tolerates_loss=True,
    )
    result: ClassVar = FirstWorker()

    slices: int | None = None
    late: float = 30.0

    def __post_init__(self) -> None:
        if self.slices is not None and self.slices < 1:
            raise CompositionError(f"BlockStore(slices={self.slices}) has nowhere to keep the weights: give 1 or more.")
        if not self.late > 0:
            raise CompositionError(f"BlockStore(late={self.late}) would give every task to all workers: give seconds above 0.")

    def workers(self, available: int) -> int:
        return available

    @property
    def service(self) -> ServerSide:
        """One server for each slice."""
        return _Slices(self.slices, self.late)

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        return BlockClient(agreement, endpoint)


@dataclass(frozen=True, slots=True)
class _Slices:
    slices: int | None
    late: float

    def count(self, workers: int) -> int:
        return workers if self.slices is None else self.slices

    def parts(self, layout: Layout, servers: int) -> list[Layout]:
        return layout.split(servers)

    def serve(self, agreement: Agreement, endpoint: ServerEndpoint) -> Coroutine[Effect[Any], Any, None]:
        """The rank of a server among the servers is its slice."""
        return BlockServer(endpoint, self.late).live()


EXAMPLES = (BlockStore(), BlockStore(2))
