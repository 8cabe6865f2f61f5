"""The binomial tree: a reduction to the root and a broadcast back.

It is the `Algorithm` of `AllReduce(Tree())`, of gossip's final average, and of sums that a training function requests of its worker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from polyrhythm.core.collectives.broadcast import broadcast
from polyrhythm.core.kernel.effects import Rounding
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Message, wire_bytes
from polyrhythm.core.kernel.port import Port


@dataclass(frozen=True, slots=True)
class Tree:
    """Sums climb a binomial tree to worker 0 and come back down it (FireCaffe; Iandola et al., 2016).

    2 log2 P (latency + nbytes / bandwidth) where P is a power of two, both legs counted; 2 (P - 1) messages of the whole tensor.
    """

    rounding: ClassVar = Rounding.NONE

    def seconds(self, nbytes: int, workers: int, latency: float, bandwidth: float) -> float:
        """Seconds of both legs, for any P: where it is no power of two, sums that reach a parent together share its line."""
        transfer = nbytes / bandwidth
        return _climb(workers, latency, transfer) + _descend(workers, latency, transfer)

    def traffic(self, value: Tensor, workers: int, topic: str) -> tuple[int, int]:
        """Bytes and messages: every worker but the root sends one sum up and is sent one down."""
        up = sum(wire_bytes(Message(f"{topic}.{rank}", tensors=(value,))) for rank in range(1, workers))
        down = wire_bytes(Message(f"{topic}.down", tensors=(value,)))
        return up + (workers - 1) * down, 2 * (workers - 1)

    def first(self, part: int, workers: int, nbytes: int) -> int | None:
        """None but for two workers: sums are nested, so no rank comes first."""
        return 0 if workers <= 2 else None

    async def reduce(self, port: Port, group: Group, value: Tensor, topic: str) -> Tensor:
        """Children are added in the order of their distance, the nearest first."""
        rank, reach, total = group.rank, 1, value
        while reach < group.size:
            if rank & reach:
                await port.send(group.members[rank - reach], Message(f"{topic}.{rank}", tensors=(total,)))
                break
            if rank + reach < group.size:
                delivery = await port.receive(f"{topic}.{rank + reach}", group.members[rank + reach])
                assert delivery is not None
                total = total + delivery.message.tensors[0]
            reach <<= 1
        return await broadcast(port, group, total, f"{topic}.down")


def _subtrees(workers: int) -> list[int]:
    """The sizes of the subtrees under the root of a binomial tree of `workers`, the nearest child first."""
    return [min(workers, 2 * reach) - reach for reach in (1 << k for k in range((workers - 1).bit_length()))]


def _climb(workers: int, latency: float, transfer: float) -> float:
    """Seconds until the root has everything: its line is busy while it receives from children that are done, one at a time."""
    busy = 0.0
    for start in sorted(_climb(size, latency, transfer) for size in _subtrees(workers)):
        busy = max(busy, start) + transfer
    return busy + latency if workers > 1 else 0.0


def _descend(workers: int, latency: float, transfer: float) -> float:
    """Seconds until the last leaf has it: it is sent to children one after another, the largest subtree first."""
    ends = [order * transfer + latency + _descend(size, latency, transfer) for order, size in enumerate(reversed(_subtrees(workers)), 1)]
    return max(ends, default=0.0)
