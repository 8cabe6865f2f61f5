"""A tree of a given depth: sums climb to the driver, worker 0, and come back down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from polyrhythm.core.kernel.effects import Rounding
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Message, wire_bytes
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError

_DEEPEST = 64
"""Levels of a tree of two branches over as many workers as 64 bits count."""


@dataclass(frozen=True, slots=True)
@checked
class AggregationTree:
    """A tree of `depth` levels below the driver, and as wide as that takes (Spark's `treeAggregate`; its tasks are workers).

    With P workers groups are of ⌈P^(1 / depth)⌉: the first of a group adds up what its members have, the first of so many groups what
    these have, in the order of ranks, and the sum is sent back the same way. A depth of 1 is a driver that all send to. 2 (P - 1)
    messages of the whole tensor.
    """

    rounding: ClassVar = Rounding.NONE

    depth: int = 2

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise CompositionError(f"AggregationTree(depth={self.depth}) reaches no worker: give 1 or more levels.")
        if self.depth > _DEEPEST:
            raise CompositionError(f"AggregationTree(depth={self.depth}) has more levels than workers: give {_DEEPEST} or less.")

    def seconds(self, nbytes: int, workers: int, latency: float, bandwidth: float) -> float:
        """Both legs; what reaches a worker together shares its line."""
        shape = _Shape(self._width(workers), workers)
        return shape.climb(self.depth, 0, latency, nbytes / bandwidth) + shape.descend(self.depth, 0, latency, nbytes / bandwidth)

    def traffic(self, value: Tensor, workers: int, topic: str) -> tuple[int, int]:
        """Every worker but the driver sends one sum up and is sent one down."""
        up = sum(wire_bytes(Message(f"{topic}.{rank}", tensors=(value,))) for rank in range(1, workers))
        down = wire_bytes(Message(f"{topic}.down", tensors=(value,)))
        return up + (workers - 1) * down, 2 * (workers - 1)

    def first(self, part: int, workers: int, nbytes: int) -> int | None:
        """The driver, where all send to it; sums are nested otherwise."""
        return 0 if self.depth == 1 or workers <= 2 else None

    async def reduce(self, port: Port, group: Group, value: Tensor, topic: str) -> Tensor:
        """Those below are added in the order of ranks."""
        rank, shape, total = group.rank, _Shape(self._width(group.size), group.size), value
        level = shape.level(rank, self.depth)
        below = [group.members[child] for _, child in shape.children(level, rank)]
        for _, child in shape.children(level, rank):
            total = total + await _receive(port, f"{topic}.{child}", group.members[child])
        if rank:
            parent = group.members[rank - rank % shape.width ** (level + 1)]
            await port.send(parent, Message(f"{topic}.{rank}", tensors=(total,)))
            total = await _receive(port, f"{topic}.down", parent)
        for name in reversed(below):
            await port.send(name, Message(f"{topic}.down", tensors=(total,)))
            await port.flush()
        return total

    def _width(self, workers: int) -> int:
        """The least w, of at least 2, for which w ** `depth` is at least the number of workers."""
        width = 1
        while width**self.depth < workers:
            width += 1
        return max(2, width)


@dataclass(frozen=True, slots=True)
class _Shape:
    """A worker of level n is the first of `width` ** n, or of as many as are left."""

    width: int
    workers: int

    def level(self, rank: int, depth: int) -> int:
        """The highest level that a worker is the first of."""
        return max(n for n in range(depth + 1) if rank % self.width**n == 0 and (n < depth or rank == 0))

    def children(self, level: int, rank: int) -> list[tuple[int, int]]:
        """The levels and ranks of those that send to `rank`, in the order of ranks."""
        below = [(n, rank + k * self.width**n) for n in range(level) for k in range(1, self.width)]
        return [(n, child) for n, child in below if child < self.workers]

    def climb(self, level: int, rank: int, latency: float, transfer: float) -> float:
        """Seconds until `rank` has the sum of all below it: its line is busy while a child that is done has not been received from."""
        starts = sorted(self.climb(n, child, latency, transfer) for n, child in self.children(level, rank))
        busy = 0.0
        for start in starts:
            busy = max(busy, start) + transfer
        return busy + latency if starts else 0.0

    def descend(self, level: int, rank: int, latency: float, transfer: float) -> float:
        """Seconds until the last one below `rank` has the sum, which is sent to one child after another."""
        below = reversed(self.children(level, rank))
        ends = [order * transfer + latency + self.descend(n, child, latency, transfer) for order, (n, child) in enumerate(below, 1)]
        return max(ends, default=0.0)


async def _receive(port: Port, topic: str, sender: str) -> Tensor:
    delivery = await port.receive(topic, sender)
    assert delivery is not None
    return delivery.message.tensors[0]
