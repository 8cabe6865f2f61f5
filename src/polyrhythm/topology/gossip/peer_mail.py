"""Messages between workers that do not wait for each other: weights at any time, and that they have finished."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from torch import Tensor

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.latch import Latch
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.protocols.topology import InitialState, WorkerEndpoint
from polyrhythm.topology.gossip.present_members import PresentMembers, unnoticed

MAIL = "mail"
"""The topic of all that comes at any time, so that what one worker sends another is taken in the order in which it was sent."""
_FINISHED, _DRAINED = "finished", "drained"

Take = Callable[[str, Message], Coroutine[Effect[Any], Any, None]]
"""Handles a message, given its sender."""


class PeerMail:
    """Calls `take` with the messages of others, also while the worker computes, and `lost` with the names of those that are gone.

    `finished` are those of them that begin no exchange any more; `drained` those that begin
    none before the next checkpoint is written.
    """

    def __init__(self, endpoint: WorkerEndpoint, take: Take, lost: Callable[[str], None] = unnoticed) -> None:
        self.port = endpoint.port
        self.take = take
        self.lost = lost
        self.members = PresentMembers(endpoint, self._lose)
        self.finished: set[str] = set()
        self.drained: set[str] = set()
        self.changed = Latch()

    def present(self, name: str) -> bool:
        """True for another member that is left."""
        return self.members.present(name)

    async def establish(self, initial: InitialState) -> Tensor:
        """The weights of the first worker, which all begin with."""
        return await self.members.establish(initial)

    async def listen(self) -> None:
        """Receive messages in the background from now on."""
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

    def _lose(self, name: str) -> None:
        self.lost(name)
        self.wake()

    def wake(self) -> None:
        """Have those that wait for `changed` look again."""
        self.changed.open()
        self.changed = Latch()

    async def finish(self) -> None:
        """Notify all others that this worker begins no exchange any more, and receive until they have done the same."""
        await self._meet(_FINISHED, self.finished)

    async def drain(self) -> str:
        """Notify all others that this worker begins no exchange before the next checkpoint, and receive until they have done the same.

        Returns no error: as `Channel.drain` has it.
        """
        await self._meet(_DRAINED, self.drained)
        self.drained.clear()
        return ""

    async def _meet(self, text: str, there: set[str]) -> None:
        for name in self.members.others:
            await self.port.send(name, Message(MAIL, text=text))
        while set(self.members.others) - there:
            await self.port.wait(self.changed)

    async def mean(self, weights: Tensor) -> Tensor:
        return await self.members.mean(weights)
