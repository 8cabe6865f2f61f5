"""The direct way: each to all, twice; two latencies whatever the number of workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.core.kernel.effects import Rounding
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Message, wire_bytes
from polyrhythm.core.kernel.port import Port
from polyrhythm.topology.collective.algorithms.reduce_scatter import scatter_directly


@dataclass(frozen=True, slots=True)
class Direct:
    """Each worker owns one part: it is sent that part by all others, sums it, and sends the sum to all (Thakur et al., 2005, section 4.1).

    2 a + 2 (1 - 1 / P) M / B: no algorithm has fewer latencies or sends less, but there are 2 P (P - 1) messages, over as many
    connections. The bits are those of `Ring`.
    """

    rounding: ClassVar = Rounding.NONE

    def seconds(self, nbytes: int, workers: int, latency: float, bandwidth: float) -> float:
        """2 a + 2 (1 - 1 / P) M / B: a worker's P - 1 messages share its line."""
        return 2 * (latency + (1 - 1 / workers) * nbytes / bandwidth) if workers > 1 else 0.0

    def traffic(self, value: Tensor, workers: int, topic: str) -> tuple[int, int]:
        """Part k travels from all to worker k and back."""
        parts = torch.tensor_split(value.reshape(-1), workers)
        pairs = [(rank, other) for rank in range(workers) for other in range(workers) if rank != other]
        nbytes = sum(
            wire_bytes(Message(f"{topic}.s.{rank}", tensors=(parts[other],)))
            + wire_bytes(Message(f"{topic}.g.{rank}", tensors=(parts[rank],)))
            for rank, other in pairs
        )
        return nbytes, 2 * len(pairs)

    def first(self, part: int, workers: int, nbytes: int) -> int | None:
        """Part k begins with worker k."""
        return part

    async def reduce(self, port: Port, group: Group, value: Tensor, topic: str) -> Tensor:
        """Part k is summed in rank order beginning with worker k, at worker k."""
        rank, workers = group.rank, group.size
        total = torch.empty_like(value, memory_format=torch.contiguous_format)
        parts = torch.tensor_split(total.view(-1), workers)
        mine = await scatter_directly(port, group, value, f"{topic}.s")
        for step in range(1, workers):
            await port.send(group.members[(rank + step) % workers], Message(f"{topic}.g.{rank}", tensors=(mine,)))
        parts[rank].copy_(mine)
        for step in range(1, workers):
            sender = (rank - step) % workers
            delivery = await port.receive(f"{topic}.g.{sender}", group.members[sender])
            assert delivery is not None
            parts[sender].copy_(delivery.message.tensors[0])
        return total
