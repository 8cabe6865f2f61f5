"""What workers that wait for nobody tell each other: weights at any time, and that they have finished."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import torch
from torch import Tensor

from polyrhythm.kernel.effects import Effect
from polyrhythm.kernel.latch import Latch
from polyrhythm.kernel.message import Message
from polyrhythm.pieces.topology import InitialState, WorkerEndpoint
from polyrhythm.topology.algorithms.broadcast import heirs, pass_on
from polyrhythm.topology.losses import GONE

MAIL = "mail"
"""The topic of all that comes at any time, so that what one worker sends another is taken in the order in which it was sent."""
_FIRST, _MEAN, _FINAL = "init", "mean", "final"
_FINISHED, _DRAINED = "finished", "drained"

Take = Callable[[str, Message], Coroutine[Effect[Any], Any, None]]
"""What is done with a message, given its sender."""


class PeerMail:
    """Gives `take` what others send, while the worker computes too, and `lost` the names of those that are gone.

    `present` are the others that are not lost, and `finished` those of them that begin no exchange any more; `drained` those that begin
    none before the next checkpoint is written.
    """

    def __init__(self, endpoint: WorkerEndpoint, take: Take, lost: Callable[[str], None]) -> None:
        self.group = endpoint.group
        self.port = endpoint.port
        self.take = take
        self.lost = lost
        self.present = {name: rank for rank, name in enumerate(self.group.members) if name != self.port.name}
        self.finished: set[str] = set()
        self.drained: set[str] = set()
        self.changed = Latch()

    async def establish(self, initial: InitialState) -> Tensor:
        """The weights of worker 0, which all begin with."""
        weights = initial.weights()
        await self.port.spawn("lost", self._watch(weights))
        if self.group.rank:
            delivery = await self.port.receive(_FIRST)  # from the parent in the tree, or from worker 0 in its stead
            assert delivery is not None
            weights = delivery.message.tensors[0]
        await pass_on(self.port, self.group, Message(_FIRST, tensors=(weights,)))
        return weights

    async def listen(self) -> None:
        """From now on take what comes."""
        await self.port.spawn("mail", self._listen())

    async def _listen(self) -> None:
        while True:
            delivery = await self.port.receive(MAIL)
            assert delivery is not None
            if delivery.message.text == _FINISHED:
                self.finished.add(delivery.sender)
                self.wake()
            elif delivery.message.text == _DRAINED:
                self.drained.add(delivery.sender)
                self.wake()
            else:
                await self.take(delivery.sender, delivery.message)

    async def _watch(self, first: Tensor) -> None:
        while True:
            delivery = await self.port.receive(GONE)
            assert delivery is not None
            name = delivery.message.text
            if self.present.pop(name, None) is None:
                continue
            self.lost(name)
            self.wake()
            if self.group.rank == 0:
                await self._stand_in(name, first)

    async def _stand_in(self, name: str, first: Tensor) -> None:
        """Who has received nothing yet may be waiting for what the lost one had for it; and its weights are not in the mean."""
        for heir in (self.group.members[rank] for rank in heirs(self.group.members.index(name), self.group.size)):
            if heir in self.present:
                await self.port.send(heir, Message(_FIRST, tensors=(first,)))
        await self.port.send(self.port.name, Message(_MEAN, text=name))

    def wake(self) -> None:
        """Have whoever waits for `changed` look again."""
        self.changed.open()
        self.changed = Latch()

    async def finish(self) -> None:
        """Send all others that this worker begins no exchange any more, and take what comes until they have sent the same."""
        await self._meet(_FINISHED, self.finished)

    async def drain(self) -> None:
        """As `finish`, but only until a checkpoint is written."""
        await self._meet(_DRAINED, self.drained)
        self.drained.clear()

    async def _meet(self, text: str, there: set[str]) -> None:
        for name in list(self.present):
            await self.port.send(name, Message(MAIL, text=text))
        while self.present.keys() - there:
            await self.port.wait(self.changed)

    async def mean(self, weights: Tensor) -> Tensor:
        """The mean of the `weights` (numel,) of all that are left, with the same bits everywhere; what is equal everywhere stays as it is.

        All send theirs to worker 0, which sends the mean to all.
        """
        if self.group.rank:
            await self.port.send(self.group.members[0], Message(_MEAN, tensors=(weights,)))
            delivery = await self.port.receive(_FINAL, self.group.members[0])
            assert delivery is not None
            return delivery.message.tensors[0]
        received = {self.port.name: weights}
        while self.present.keys() - received.keys():
            delivery = await self.port.receive(_MEAN)
            assert delivery is not None
            if delivery.message.tensors:
                received[delivery.sender] = delivery.message.tensors[0]
        mean = _mean([received[name] for name in self.group.members if name in received])
        for name in self.group.members[1:]:
            await self.port.send(name, Message(_FINAL, tensors=(mean,)))
        return mean


def _mean(values: list[Tensor]) -> Tensor:
    """Dividing a sum of equal numbers need not give them back."""
    stacked = torch.stack(values)
    return torch.where((stacked == stacked[0]).all(dim=0), stacked[0], stacked.mean(dim=0))
