"""Memory of one host that all workers of a group share: who makes it, how the others find it, and when nobody writes any more."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from polyrhythm.core.kernel.effects import MemoryBlock
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.protocols.losses import GONE
from polyrhythm.core.protocols.topology import WorkerEndpoint
from polyrhythm.errors import CompositionError

_MEMORY, _DONE, _FINAL = "memory", "done", "final"
_ADDRESS = 192
"""Characters to which an address is filled up, so that both runtimes count as many bytes."""


def refuse_device(weights: Tensor, worker: str, topology: object) -> None:
    """Raise CompositionError for weights that cannot lie in memory of the host."""
    if weights.device.type != "cpu":
        raise CompositionError(
            f"The weights of {worker} are on {weights.device}, and {topology!r} is for weights in memory of the host: "
            "let workers compute on the CPU, with Processes(cuda=False) or --device cpu."
        )


class HostMemory:
    """The first worker makes it, and keeps in `present` who has neither finished nor been lost."""

    def __init__(self, endpoint: WorkerEndpoint) -> None:
        self.group = endpoint.group
        self.port = endpoint.port
        self.present = set(endpoint.group.members[1:])
        self.finished: list[str] = []
        self.block: MemoryBlock

    @property
    def concurrent(self) -> bool:
        """True if workers may write at the same time."""
        return self.block.concurrent

    async def open(self, nbytes: int, fill: Callable[[Tensor], object]) -> Tensor:
        """The memory (nbytes,), which the first worker has `fill` write to before anyone else sees it."""
        if self.group.rank:
            delivery = await self.port.receive(_MEMORY, self.group.members[0])
            assert delivery is not None
            self.block = await self.port.share_memory(nbytes, delivery.message.text.rstrip())
            return self.block.content[:nbytes]
        self.block = await self.port.share_memory(nbytes)
        fill(self.block.content[:nbytes])
        await self.port.spawn("lost", self._watch())
        for name in self.group.members[1:]:
            await self.port.send(name, Message(_MEMORY, text=self.block.address.ljust(_ADDRESS)))
        return self.block.content[:nbytes]

    async def _watch(self) -> None:
        while True:
            delivery = await self.port.receive(GONE)
            assert delivery is not None
            await self.port.send(self.port.name, Message(_DONE, text=delivery.message.text))

    async def end(self) -> None:
        """Wait until nobody writes any more."""
        if self.group.rank:
            await self.port.send(self.group.members[0], Message(_DONE))
            await self.port.receive(_FINAL, self.group.members[0])
            return
        while self.present:
            delivery = await self.port.receive(_DONE)
            assert delivery is not None
            lost = delivery.message.text
            self.present.discard(lost or delivery.sender)
            if not lost:
                self.finished.append(delivery.sender)
        for name in self.finished:
            await self.port.send(name, Message(_FINAL))
