"""The ring: bandwidth-optimal, latency proportional to the number of workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.core.kernel.effects import Rounding
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Message, wire_bytes
from polyrhythm.core.kernel.port import Port


@dataclass(frozen=True, slots=True)
class Ring:
    """Reduce-scatter and all-gather around a ring (Patarasuk and Yuan, 2009; Horovod, Sergeev and Del Balso, 2018).

    Each worker sends 2 (P - 1) messages of 1 / P of the tensor: 2 (P - 1) (latency + nbytes / (P bandwidth)).
    """

    rounding: ClassVar = Rounding.NONE

    def seconds(self, nbytes: int, workers: int, latency: float, bandwidth: float) -> float:
        """2 (P - 1) (a + M / (P B))."""
        return 2 * (workers - 1) * (latency + nbytes / workers / bandwidth)

    def traffic(self, value: Tensor, workers: int, topic: str) -> tuple[int, int]:
        """Every chunk travels 2 (P - 1) times."""
        hops, chunks = 2 * (workers - 1), torch.tensor_split(value.reshape(-1), workers)
        empty = wire_bytes(Message(""))
        contents = sum(wire_bytes(Message("", tensors=(chunk,))) - empty for chunk in chunks)
        return workers * sum(wire_bytes(Message(f"{topic}.{hop}")) for hop in range(hops)) + hops * contents, hops * workers

    def first(self, part: int, workers: int, nbytes: int) -> int | None:
        """Part k begins with worker k."""
        return part

    async def reduce(self, port: Port, group: Group, value: Tensor, topic: str) -> Tensor:
        """Chunk k is summed in rank order beginning with worker k, and its sum goes once more around."""
        rank, workers = group.rank, group.size
        following, previous = group.members[(rank + 1) % workers], group.members[(rank - 1) % workers]
        chunks = list(torch.tensor_split(value.reshape(-1), workers))
        for hop in range(2 * (workers - 1)):
            leaving, coming = (rank - hop) % workers, (rank - hop - 1) % workers
            await port.send(following, Message(f"{topic}.{hop}", tensors=(chunks[leaving],)))
            delivery = await port.receive(f"{topic}.{hop}", previous)
            assert delivery is not None
            arrived = delivery.message.tensors[0]
            chunks[coming] = arrived + chunks[coming] if hop < workers - 1 else arrived
        return torch.cat(chunks).view(value.shape)
