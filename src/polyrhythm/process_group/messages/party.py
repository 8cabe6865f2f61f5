"""One member of a process group in one collective that is made of messages. Algorithms send and receive through it."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.message import Message, wire_bytes
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.kernel.port import Port
from polyrhythm.process_group.messages.calls import IssuedCall

Doing = Coroutine[Effect[Any], Any, None]


@dataclass(slots=True)
class BytesSent:
    """The bytes that a member has sent for one collective."""

    nbytes: int = 0


@dataclass(frozen=True, slots=True)
class Party:
    """One member, that of `rank`, in one collective of a group: `call` is what it issues, `topic` that of its messages, and
    `tally` counts what it sends."""

    port: Port
    members: tuple[str, ...]
    rank: int
    topic: str
    call: IssuedCall
    tally: BytesSent
    within: float | None = None
    """The seconds that it waits for each message, if they are limited."""

    @property
    def size(self) -> int:
        """The number of members."""
        return len(self.members)

    async def send(self, to: int, part: str, *tensors: Tensor) -> None:
        """Send to the member of rank `to`."""
        message = Message(f"{self.topic}/{part}/{self.rank}", text=self.call.signature, tensors=tensors)
        self.tally.nbytes += wire_bytes(message)
        await self.port.send(self.members[to], message)

    async def receive(self, source: int, part: str) -> tuple[Tensor, ...]:
        """What the member of rank `source` has sent. Raises RunError if it has issued another collective, DistBackendError if it does
        not come in time."""
        delivery = await self.port.receive(f"{self.topic}/{part}/{source}", self.members[source], self.within)
        if delivery is None:
            raise self.call.late(rank_of(self.members[self.rank]), f"rank {rank_of(self.members[source])}", self.within)
        if delivery.message.text != self.call.signature:
            self.call.compare(delivery.message.text, rank_of(self.members[self.rank]), rank_of(self.members[source]))
        return delivery.message.tensors

    async def announce(self, source: int, part: str) -> None:
        """Let the member of rank `source` know that this one waits for its `part`."""
        notice = Message(f"{self.topic}/{part}?{self.rank}")
        self.tally.nbytes += wire_bytes(notice)
        await self.port.send(self.members[source], notice)

    async def announced(self, to: int, part: str) -> None:
        """Return when the member of rank `to` has announced that it waits. Raises DistBackendError if that takes too long."""
        if await self.port.receive(f"{self.topic}/{part}?{to}", self.members[to], self.within) is None:
            raise self.call.late(rank_of(self.members[self.rank]), f"rank {rank_of(self.members[to])}", self.within)
