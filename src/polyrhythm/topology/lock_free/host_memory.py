"""Memory of one host that all workers of a group share: who makes it, how the others find it, and when nobody writes any more."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from polyrhythm.core.kernel.effects import MemoryBlock
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.view import View
from polyrhythm.core.protocols.losses import follow_losses
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
    """The first worker makes it, and keeps in `view` who of the others is left, and in `finished` who is done."""

    def __init__(self, endpoint: WorkerEndpoint) -> None:
        self.group = endpoint.group
        self.port = endpoint.port
        self.view = View.of(endpoint.group.members[1:])
        self.finished: list[str] = []
        self.block: MemoryBlock

    @property
    def concurrent(self) -> bool:
        """True if workers may write at the same time."""
        return self.block.concurrent

    async def open(self, nbytes: int, fill: Callable[[Tensor], object]) -> Tensor:
        """The memory (nbytes,), which the first worker has `fill` write to before anyone else sees it."""
        if not self.group.is_first:
            delivery = await self.port.receive(_MEMORY, self.group.first)
            assert delivery is not None
            self.block = await self.port.share_memory(nbytes, delivery.message.text.rstrip())
            return self.block.content[:nbytes]
        self.block = await self.port.share_memory(nbytes)
        fill(self.block.content[:nbytes])
        await follow_losses(self.port, self._lose)
        for name in self.group.members[1:]:
            await self.port.send(name, Message(_MEMORY, text=self.block.address.ljust(_ADDRESS)))
        return self.block.content[:nbytes]

    async def _lose(self, name: str) -> None:
        await self.port.send(self.port.name, Message(_DONE, text=name))

    async def end(self) -> None:
        """Wait until nobody writes any more."""
        if not self.group.is_first:
            await self.port.send(self.group.first, Message(_DONE))
            await self.port.receive(_FINAL, self.group.first)
            return
        while set(self.view.members).difference(self.finished):
            delivery = await self.port.receive(_DONE)
            assert delivery is not None
            if lost := delivery.message.text:
                self.view = self.view.without(lost)
            else:
                self.finished.append(delivery.sender)
        for name in self.finished:
            await self.port.send(name, Message(_FINAL))
