"""The other workers of an exchange, some of whom may be lost on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from torch import Tensor

from polyrhythm.core.collectives.broadcast import children, pass_on
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Delivery, Message
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.protocols.losses import GONE
from polyrhythm.core.protocols.topology import InitialState, WorkerEndpoint

_FIRST, _MEAN, _FINAL = "init", "mean", "mean.down"


class OtherMembers:
    """The members of a group without one's `own` name and those that are gone. Only these are kept: thousands have thousands of others.

    Only for names of members: any other name counts as present.
    """

    def __init__(self, group: Group, own: str) -> None:
        self._group = group
        self._own = own
        self._gone: set[str] = set()

    def __contains__(self, name: object) -> bool:
        return name != self._own and name not in self._gone

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._group.members if name != self._own and name not in self._gone)

    def remove(self, name: str) -> bool:
        """Mark `name` as gone. Returns true if it was present."""
        there = name in self._group.members and name in self
        self._gone.add(name)
        return there


class PresentMembers:
    """`present` are the others that are not lost; `lost` is called with the name of one that has been.

    What goes down a tree is sent by worker 0 to those whose parent is lost.
    """

    def __init__(self, endpoint: WorkerEndpoint, lost: Callable[[str], None]) -> None:
        self.group = endpoint.group
        self.port = endpoint.port
        self.lost = lost
        self.present = OtherMembers(self.group, self.port.name)
        self.awaited = ""
        self.down: Message

    async def establish(self, initial: InitialState) -> Tensor:
        """The weights of worker 0, which all begin with."""
        if not self.group.rank:
            self.down = Message(_FIRST, tensors=(initial.weights(),))
        await self.port.spawn("lost", self._watch())
        return await self._descend(_FIRST)

    async def _descend(self, topic: str) -> Tensor:
        """The tensor that worker 0 has for all; others get it from the parent in the tree, or from worker 0 in its stead."""
        if self.group.rank:
            delivery = await self.port.receive(topic)
            assert delivery is not None
            self.down = Message(topic, tensors=delivery.message.tensors)
        await pass_on(self.port, self.group, self.down)
        return self.down.tensors[0]

    async def _watch(self) -> None:
        while True:
            delivery = await self.port.receive(GONE)
            assert delivery is not None
            name = delivery.message.text
            if not self.present.remove(name):
                continue
            self.lost(name)
            if self.awaited:
                await self.port.send(self.port.name, Message(self.awaited))
            if self.group.rank == 0:
                await self._stand_in(name)

    async def _stand_in(self, name: str) -> None:
        for child in (self.group.members[rank] for rank in children(self.group.members.index(name), self.group.size)):
            if child in self.present:
                await self.port.send(child, self.down)

    async def receive(self, topic: str, names: Sequence[str]) -> list[Delivery]:
        """One message under `topic` from each of `names` that is not lost, in the order of ranks."""
        come: dict[str, Delivery] = {}
        while missing := [name for name in names if name in self.present and name not in come]:
            self.awaited = topic
            delivery = await self.port.receive(topic, missing[0])
            assert delivery is not None
            come[delivery.sender] = delivery
        self.awaited = ""
        return [come[name] for name in sorted(come, key=rank_of) if name != self.port.name]

    async def mean(self, weights: Tensor) -> Tensor:
        """The mean of the `weights` (numel,) of all, with the same bits everywhere; they climb a tree to worker 0 and come back down it.

        What a lost worker has not passed on is not in it.
        """
        rank, members, reach, count = self.group.rank, self.group.members, 1, 1.0  # of so many workers
        while reach < len(members) and not rank & reach:
            if rank + reach < len(members):
                for delivery in await self.receive(f"{_MEAN}.{rank + reach}", [members[rank + reach]]):
                    weights = weights + delivery.message.tensors[0]
                    count += next(iter(delivery.message.numbers), self._subtree(rank + reach, reach))
            reach <<= 1
        if rank:
            numbers = () if count == self._subtree(rank, reach) else (count,)
            await self.port.send(members[rank - reach], Message(f"{_MEAN}.{rank}", numbers, tensors=(weights,)))
        else:
            self.down = Message(_FINAL, tensors=(weights / count,))
            for name in (name for name in members[1:] if name not in self.present):
                await self._stand_in(name)
        return await self._descend(_FINAL)

    def _subtree(self, rank: int, reach: int) -> float:
        """The number of workers in a sum from `rank` over `reach` ranks, if none is lost."""
        return float(min(self.group.size, rank + reach) - rank)
