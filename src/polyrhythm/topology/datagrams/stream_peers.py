"""The other workers of a lossy exchange, and what they send each other reliably: the first weights, and the ends of phases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.view import View
from polyrhythm.core.protocols.losses import follow_losses
from polyrhythm.core.protocols.topology import WorkerEndpoint

_FIRST, _PHASE = "init", "phase"


class StreamPeers:
    """`view` has the workers that are left. In a phase each sends every other one message, which `came` keeps until `gather` takes it."""

    def __init__(self, endpoint: WorkerEndpoint) -> None:
        self.group = endpoint.group
        self.port = endpoint.port
        self.view = View.of(self.group.members)
        self.came: dict[str, list[Message]] = {name: [] for name in self.group.members}

    @property
    def others(self) -> list[str]:
        """Those that are left, beginning with the next in rank: who sends to all does not begin with the same one as the others."""
        after = (self.group.members[(self.group.rank + step) % self.group.size] for step in range(1, self.group.size))
        return [name for name in after if self.view.present(name)]

    async def establish(self, weights: Tensor) -> Tensor:
        """The weights of the first worker, which all begin with."""
        await follow_losses(self.port, self._lose)
        if not self.group.is_first:
            delivery = await self.port.receive(_FIRST, self.group.first)
            assert delivery is not None
            return delivery.message.tensors[0]
        for name in self.others:
            await self.port.send(name, Message(_FIRST, tensors=(weights,)))
        return weights

    async def _lose(self, name: str) -> None:
        self.view = self.view.without(name)
        await self.port.send(self.port.name, Message(_PHASE))  # have `gather` look again

    async def send(self, name: str, numbers: Sequence[float], tensors: tuple[Tensor, ...]) -> None:
        """This worker's message of a phase."""
        await self.port.send(name, Message(_PHASE, tuple(map(float, numbers)), tensors=tensors))

    async def gather(self, names: Iterable[str]) -> dict[str, Message]:
        """The message of a phase of each of these, but for those that were lost before they had sent it."""
        wanted = list(names)
        while any(not self.came[name] for name in wanted if self.view.present(name)):
            delivery = await self.port.receive(_PHASE)
            assert delivery is not None
            if delivery.sender != self.port.name:
                self.came[delivery.sender].append(delivery.message)
        return {name: self.came[name].pop(0) for name in wanted if self.came[name]}
