"""How the user's own numbers and words get round: over a tree, or through worker 0 where a worker may be lost.

What worker 0 is told, and the news of losses, have the topic CALL; answers and broadcasts have that of their call. A call has its kind
in its topic, so that a mean here never meets a barrier there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from polyrhythm.errors import WorkloadError
from polyrhythm.kernel.group import Group
from polyrhythm.kernel.message import CALL, Message
from polyrhythm.kernel.port import Port
from polyrhythm.strategy.losses import Losses
from polyrhythm.topology.algorithms.broadcast import spread, tell_all
from polyrhythm.topology.algorithms.tree import Tree

KINDS = ("barrier", "mean", "any", "broadcast")


@dataclass(frozen=True, slots=True)
class UserCall:
    """One call: which of KINDS, and its number among all calls of the worker."""

    kind: str
    number: int

    @property
    def topic(self) -> str:
        """Of its messages."""
        return f"{CALL}/{self.kind}/{self.number}"

    @property
    def code(self) -> tuple[float, float]:
        """As a message tells it."""
        return float(self.number), float(KINDS.index(self.kind))


class UserCollectives(Protocol):
    """One worker's side. All workers make the same calls, which are numbered."""

    async def total(self, value: Tensor, call: UserCall) -> tuple[Tensor, int]:
        """The sum over the workers, the same bits for all, and how many they were."""

    async def spread(self, message: Message, call: UserCall) -> Message:
        """Worker 0's message; its topic is not looked at."""


class TreeCollectives:
    """For runs that end with the first worker that is lost: 2 (P - 1) messages and 2 ⌈log2 P⌉ latencies for a sum."""

    def __init__(self, port: Port, group: Group) -> None:
        self.port = port
        self.group = group

    async def total(self, value: Tensor, call: UserCall) -> tuple[Tensor, int]:
        """As the protocol says."""
        return await Tree().reduce(self.port, self.group, value, call.topic), self.group.size

    async def spread(self, message: Message, call: UserCall) -> Message:
        """As the protocol says."""
        message.topic = call.topic
        return await spread(self.port, self.group, message)


class SurvivorCollectives:
    """For runs that go on without a lost worker: all tell worker 0, without which none goes on, and worker 0 tells all.

    2 (P - 1) messages and two latencies for a sum. A worker that is lost counts if worker 0 has heard it before the news.
    """

    def __init__(self, port: Port, group: Group, losses: Losses) -> None:
        self.port = port
        self.group = group
        self.losses = losses
        self.left = set(group.members[1:])
        self.listens = False

    async def total(self, value: Tensor, call: UserCall) -> tuple[Tensor, int]:
        """As the protocol says; worker 0 adds up in the order of ranks."""
        if self.group.rank:
            await self.port.send(self.group.members[0], Message(CALL, call.code, tensors=(value,)))
            answer = await self.spread(Message(""), call)
        else:
            values = await self._hear(call)
            summed = torch.stack([value, *values]).sum(dim=0)
            answer = await self.spread(Message("", (float(len(values) + 1),), tensors=(summed,)), call)
        return answer.tensors[0], int(answer.numbers[0])

    async def spread(self, message: Message, call: UserCall) -> Message:
        """As the protocol says."""
        message.topic = call.topic
        return await tell_all(self.port, self.group, message)

    async def _hear(self, call: UserCall) -> list[Tensor]:
        """What the others say, by rank."""
        await self._listen()
        said: dict[str, Tensor] = {}
        while self.left - said.keys():
            delivery = await self.port.receive(CALL)
            assert delivery is not None
            message = delivery.message
            if message.text:
                self.left.discard(message.text)
            elif message.numbers == call.code:
                said[delivery.sender] = message.tensors[0]
            elif message.numbers[0] == call.number:  # an earlier one is of a worker that is lost, and was slower than the news
                raise WorkloadError(
                    f"{self.port.name} calls worker.{call.kind}() where {delivery.sender} calls worker.{KINDS[int(message.numbers[1])]}(): "
                    "every worker must make the same calls in the same order."
                )
        return [said[name] for name in self.group.members[1:] if name in said]

    async def _listen(self) -> None:
        if not self.listens:
            self.listens = True
            await self.losses.begin()
            await self.losses.tell(CALL)
