"""Weights in memory that all workers of a host share, and write without locks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.errors import CompositionError
from polyrhythm.kernel.effects import MemoryBlock
from polyrhythm.kernel.message import Message
from polyrhythm.pieces.responses import ApplyContributions, PlaceWeights, Response
from polyrhythm.pieces.result_source import FirstWorker
from polyrhythm.pieces.topology import Agreement, Channel, InitialState, RowWrites, WorkerEndpoint
from polyrhythm.pieces.traits import Pattern, Payload, TopologyTraits
from polyrhythm.tensors import State
from polyrhythm.topology.losses import GONE
from polyrhythm.trees import StateTree

_MEMORY, _DONE, _FINAL = "memory", "done", "final"
_ADDRESS = 192
"""Characters to which an address is filled up, so that both runtimes count as many bytes."""
_COUNT = torch.int32


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """All workers read and write the same weights, without locks, and wait for nobody (Hogwild!; Niu et al., NIPS 2011).

    For workers of one host that compute on its CPU. The state of an optimizer stays with its worker. Beside the weights lies a counter for
    each of their rows, which every writer increments in the same way, and one for each row and worker: how far these differ at the
    end is how many writes were lost (in real processes; virtual time makes one step's writes at a time).
    """

    traits: ClassVar = TopologyTraits(frozenset({Payload.NOTHING}), Pattern.SHARED)
    service: ClassVar[None] = None
    result: ClassVar = FirstWorker()

    def workers(self, available: int) -> int:
        """All."""
        return available

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        """A worker's side."""
        return _SharedChannel(endpoint)


class _SharedChannel:
    """`shared` are the weights (numel,), `common` the counters of all (rows,), `own` those of each worker (P, rows).

    The first worker keeps in `present` who has neither finished nor been lost.
    """

    buckets = None
    in_place = None
    tensors = None
    late = None
    collective = None

    def __init__(self, endpoint: WorkerEndpoint) -> None:
        self.group = endpoint.group
        self.port = endpoint.port
        self.present = set(endpoint.group.members[1:])
        self.finished: list[str] = []
        self.memory: MemoryBlock
        self.shared: Tensor
        self.common: Tensor
        self.own: Tensor
        self.writes: RowWrites | None = None

    async def establish(self, initial: InitialState) -> Response:
        weights, layout = initial.model_state.weights, initial.model_state.layout
        if weights.device.type != "cpu":
            raise CompositionError(
                f"The weights of {self.port.name} are on {weights.device}, and SharedMemory() is for weights in memory of the host: "
                "let workers compute on the CPU, with Processes(cuda=False) or --device cpu."
            )
        rows, first = sum(layout.rows), weights.numel() * weights.element_size()
        first += -first % _COUNT.itemsize
        nbytes = first + rows * _COUNT.itemsize * (1 + self.group.size)
        if self.group.rank == 0:
            self.memory = await self.port.share_memory(nbytes)
        else:
            delivery = await self.port.receive(_MEMORY, self.group.members[0])
            assert delivery is not None
            self.memory = await self.port.share_memory(nbytes, delivery.message.text.rstrip())
        content = self.memory.content
        self.shared = content[: weights.numel() * weights.element_size()].view(weights.dtype)
        counters = content[first:nbytes].view(_COUNT).view(1 + self.group.size, rows)
        self.common, self.own = counters[0], counters[1:]
        if self.group.rank == 0:
            self.shared.copy_(weights)
            await self.port.spawn("lost", self._watch())
            for name in self.group.members[1:]:
                await self.port.send(name, Message(_MEMORY, text=self.memory.address.ljust(_ADDRESS)))
        return PlaceWeights(self.shared, owned=self.group.rank == 0)

    async def _watch(self) -> None:
        while True:
            delivery = await self.port.receive(GONE)
            assert delivery is not None
            await self.port.send(self.port.name, Message(_DONE, text=delivery.message.text))

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        for counters in (self.own[self.group.rank], self.common):  # the worker's own first, so that no loss is counted that was none
            if value.numel() == counters.numel():
                counters.add_(1)  # reads, adds and writes element by element, as the optimizer does with the weights
            else:
                counters.index_add_(0, value, torch.ones(value.numel(), dtype=_COUNT))
        return ApplyContributions([])

    async def finish(self) -> Response:
        """Wait until nobody writes any more; then everyone takes a copy."""
        if self.group.rank:
            await self.port.send(self.group.members[0], Message(_DONE))
            await self.port.receive(_FINAL, self.group.members[0])
            return PlaceWeights(self.shared.clone())
        while self.present:
            delivery = await self.port.receive(_DONE)
            assert delivery is not None
            lost = delivery.message.text
            self.present.discard(lost or delivery.sender)
            if not lost:
                self.finished.append(delivery.sender)
        for name in self.finished:
            await self.port.send(name, Message(_FINAL))
        if self.memory.concurrent:
            written = int(self.own.sum())
            self.writes = RowWrites(written, written - int(self.common.sum()))
        return PlaceWeights(self.shared.clone())

    async def drain(self, step: int) -> str:
        """Nothing is under way: between two steps nobody writes."""
        return ""

    def export(self) -> StateTree:
        return {"own": self.own[self.group.rank], "common": None if self.group.rank else self.common}

    def restore(self, state: StateTree) -> None:
        self.own[self.group.rank].copy_(state["own"])
        if self.group.rank == 0:
            self.common.copy_(state["common"])

    def states(self) -> list[tuple[State, Tensor]]:
        """Nothing is encoded, and nothing kept back."""
        return []
