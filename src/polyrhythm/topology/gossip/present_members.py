"""The other workers of an exchange, some of whom may be lost on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from polyrhythm.core.collectives.broadcast import children, pass_on
from polyrhythm.core.kernel.message import Delivery, Message
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.kernel.view import View
from polyrhythm.core.protocols.losses import follow_losses
from polyrhythm.core.protocols.topology import InitialState, WorkerEndpoint

_FIRST, _MEAN, _FINAL = "init", "mean", "mean.down"


def unnoticed(name: str) -> None:
    """Do nothing about a lost worker: its neighbours mix one replica less, in what it has not sent."""


class PresentMembers:
    """`view` has the members that are left; `lost` is called with the name of one that is not.

    What goes down a tree is sent by the first worker to those whose parent is lost.
    """

    def __init__(self, endpoint: WorkerEndpoint, lost: Callable[[str], None] = unnoticed) -> None:
        self.group = endpoint.group
        self.port = endpoint.port
        self.lost = lost
        self.view = View.of(self.group.members)
        self.awaited = ""
        self.down: Message

    @property
    def others(self) -> list[str]:
        """The other members that are left, in the order of ranks."""
        return [name for name in self.view.members if name != self.port.name]

    def present(self, name: str) -> bool:
        """True for another member that is left."""
        return name != self.port.name and self.view.present(name)

    async def establish(self, initial: InitialState) -> Tensor:
        """The weights of the first worker, which all begin with."""
        if self.group.is_first:
            self.down = Message(_FIRST, tensors=(initial.agreed(),))
        await follow_losses(self.port, self._lose)
        return await self._descend(_FIRST)

    async def _descend(self, topic: str) -> Tensor:
        """The tensor that the first worker has for all; others get it from the parent in the tree, or from the first in its stead."""
        if not self.group.is_first:
            delivery = await self.port.receive(topic)
            assert delivery is not None
            self.down = Message(topic, tensors=delivery.message.tensors)
        await pass_on(self.port, self.group, self.down)
        return self.down.tensors[0]

    async def _lose(self, name: str) -> None:
        before, self.view = self.view, self.view.without(name)
        if self.view is before:
            return
        self.lost(name)
        if self.awaited:
            await self.port.send(self.port.name, Message(self.awaited))
        if self.group.is_first:
            await self._stand_in(name)

    async def _stand_in(self, name: str) -> None:
        for child in (self.group.members[rank] for rank in children(self.group.members.index(name), self.group.size)):
            if self.present(child):
                await self.port.send(child, self.down)

    async def receive(self, topic: str, names: Sequence[str]) -> list[Delivery]:
        """One message under `topic` from each of `names` that is not lost, in the order of ranks."""
        come: dict[str, Delivery] = {}
        for name in names:
            while name not in come and self.present(name):
                self.awaited = topic
                delivery = await self.port.receive(topic, name)
                assert delivery is not None
                come[delivery.sender] = delivery
        self.awaited = ""
        come.pop(self.port.name, None)  # what says that one is lost
        return list(come.values()) if len(come) < 2 else [come[name] for name in sorted(come, key=rank_of)]

    async def mean(self, weights: Tensor) -> Tensor:
        """The mean of the `weights` (numel,) of all, with the same bits everywhere; they climb a tree to the first worker and come back.

        What a lost worker has not passed on is not in it.
        """
        rank, members, reach, count = self.group.rank, self.group.members, 1, 1.0  # of so many workers
        while reach < len(members) and not rank & reach:
            if rank + reach < len(members):
                for delivery in await self.receive(f"{_MEAN}.{rank + reach}", [members[rank + reach]]):
                    weights = weights + delivery.message.tensors[0]
                    count += next(iter(delivery.message.numbers), self._subtree(rank + reach, reach))
            reach <<= 1
        if not self.group.is_first:
            numbers = () if count == self._subtree(rank, reach) else (count,)
            await self.port.send(members[rank - reach], Message(f"{_MEAN}.{rank}", numbers, tensors=(weights,)))
        else:
            self.down = Message(_FINAL, tensors=(weights / count,))
            for name in (name for name in members[1:] if not self.present(name)):
                await self._stand_in(name)
        return await self._descend(_FINAL)

    def _subtree(self, rank: int, reach: int) -> float:
        """The number of workers in a sum from `rank` over `reach` ranks, if none is lost."""
        return float(min(self.group.size, rank + reach) - rank)
