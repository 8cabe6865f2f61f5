"""The star: worker 0 sums what all send it, and copies the sum back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from polyrhythm.core.collectives.broadcast import flat_broadcast
from polyrhythm.core.kernel.effects import Rounding
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Message, wire_bytes
from polyrhythm.core.kernel.port import Port


@dataclass(frozen=True, slots=True)
class Star:
    """All send their tensor to worker 0, which adds them up and sends each the sum (Dive into Deep Learning, section 13.5).

    2 (a + (P - 1) M / B): worker 0's line carries the whole tensor P - 1 times in each direction, 2 (P - 1) M in all; the others wait.
    """

    rounding: ClassVar = Rounding.NONE

    def seconds(self, nbytes: int, workers: int, latency: float, bandwidth: float) -> float:
        """2 (a + (P - 1) M / B)."""
        return 2 * (latency + (workers - 1) * nbytes / bandwidth) if workers > 1 else 0.0

    def traffic(self, value: Tensor, workers: int, topic: str) -> tuple[int, int]:
        """Every worker but the first sends its tensor, and is sent the sum."""
        up = sum(wire_bytes(Message(f"{topic}.{rank}", tensors=(value,))) for rank in range(1, workers))
        return up + (workers - 1) * wire_bytes(Message(f"{topic}.down", tensors=(value,))), 2 * (workers - 1)

    def first(self, part: int, workers: int, nbytes: int) -> int | None:
        """All is summed in the order of ranks."""
        return 0

    async def reduce(self, port: Port, group: Group, value: Tensor, topic: str) -> Tensor:
        """Tensors are added in the order of ranks, whichever comes first."""
        total = value
        if not group.is_first:
            await port.send(group.first, Message(f"{topic}.{group.rank}", tensors=(value,)))
        else:
            for rank in range(1, group.size):
                delivery = await port.receive(f"{topic}.{rank}", group.members[rank])
                assert delivery is not None
                total = total + delivery.message.tensors[0]
        return await flat_broadcast(port, group, total, f"{topic}.down")
