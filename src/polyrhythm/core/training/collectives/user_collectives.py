"""Collectives of the user's own values: over a tree, or through worker 0 where a worker may be lost.

Messages to worker 0 and notices of lost workers have the topic CALL; results and broadcasts have that of their call. The topic of a call
contains its kind, so that a mean is never matched with a barrier.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from polyrhythm.core.collectives.broadcast import broadcast_message, flat_broadcast_message
from polyrhythm.core.collectives.tree import Tree
from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.latch import Latch
from polyrhythm.core.kernel.message import CALL, Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.strategy.losses import Losses
from polyrhythm.core.training.collectives.survivor_totals import SurvivorTotals
from polyrhythm.errors import WorkloadError

KINDS = ("barrier", "mean", "any", "broadcast", "batches", "gather")

Summed = tuple[Tensor, int]
"""A sum over the workers, and their number."""


@dataclass(frozen=True, slots=True)
class UserCall:
    """One call: which of KINDS, and its number among all calls of the worker."""

    kind: str
    number: int

    @property
    def topic(self) -> str:
        """The topic of the messages of this call."""
        return f"{CALL}/{self.kind}/{self.number}"

    @property
    def code(self) -> tuple[float, float]:
        """The number and the kind of the call, as numbers of a message."""
        return float(self.number), float(KINDS.index(self.kind))


class UserCollectives(Protocol):
    """One worker's side. All workers make the same calls, which are numbered."""

    async def total(self, value: Tensor, call: UserCall) -> tuple[Tensor, int]:
        """The sum over the workers, the same bits for all, and the number of these workers."""

    async def begin(self, value: Tensor, call: UserCall) -> Callable[[], Coroutine[Effect[Any], Any, Summed]]:
        """Start a `total` in the background. The returned function is to be called once; its coroutine returns the total."""

    async def broadcast(self, message: Message, call: UserCall) -> Message:
        """Worker 0's message; its topic is ignored."""


class TreeCollectives:
    """For runs that end with the first worker that is lost: 2 (P - 1) messages and 2 ⌈log2 P⌉ latencies for a sum."""

    def __init__(self, port: Port, group: Group) -> None:
        self.port = port
        self.group = group

    async def total(self, value: Tensor, call: UserCall) -> tuple[Tensor, int]:
        """The sum by a tree reduction."""
        return await Tree().reduce(self.port, self.group, value, call.topic), self.group.size

    async def begin(self, value: Tensor, call: UserCall) -> Callable[[], Coroutine[Effect[Any], Any, Summed]]:
        """Start the sum, which is computed while the worker computes."""
        summed, ended = list[Tensor](), Latch()

        async def run() -> None:
            summed.append((await self.total(value, call))[0])
            ended.open()

        async def end() -> Summed:
            await self.port.wait(ended)
            return summed[0], self.group.size

        await self.port.spawn(call.topic, run())
        return end

    async def broadcast(self, message: Message, call: UserCall) -> Message:
        """Worker 0's message, sent over a binomial tree."""
        message.topic = call.topic
        return await broadcast_message(self.port, self.group, message)


class SurvivorCollectives:
    """For runs that continue without a lost worker, except worker 0: all send to worker 0, and worker 0 sends to all.

    2 (P - 1) messages and two latencies for a sum. A lost worker counts if its message reached worker 0 before the notice of its loss.
    """

    def __init__(self, port: Port, group: Group, losses: Losses) -> None:
        self.port = port
        self.group = group
        self.losses = losses
        self.gone: set[str] = set()
        self.follows_losses = False
        self.totals = SurvivorTotals(port, group, losses)

    async def total(self, value: Tensor, call: UserCall) -> tuple[Tensor, int]:
        """The sum, which worker 0 computes in the order of ranks."""
        if self.group.rank:
            await self.port.send(self.group.members[0], Message(CALL, call.code, tensors=(value,)))
            result = await self.broadcast(Message(""), call)
        else:
            values = await self._receive(call)
            summed = torch.stack([value, *values]).sum(dim=0)
            result = await self.broadcast(Message("", (float(len(values) + 1),), tensors=(summed,)), call)
        return result.tensors[0], int(result.numbers[0])

    async def begin(self, value: Tensor, call: UserCall) -> Callable[[], Coroutine[Effect[Any], Any, Summed]]:
        """Start the sum, which is computed while the worker computes."""
        await self.totals.begin(value, call.code[0], call.topic)
        return partial(self.totals.result, call.code[0], call.topic)

    async def broadcast(self, message: Message, call: UserCall) -> Message:
        """Worker 0's message, which it sends to every worker directly."""
        message.topic = call.topic
        return await flat_broadcast_message(self.port, self.group, message)

    async def _receive(self, call: UserCall) -> list[Tensor]:
        """The values of the other workers, by rank."""
        await self._follow_losses()
        values: dict[str, Tensor] = {}
        while len(self.gone | values.keys()) < self.group.size - 1:
            delivery = await self.port.receive(CALL)
            assert delivery is not None
            message = delivery.message
            if message.text:
                self.gone |= {message.text}.intersection(self.group.members)
            elif message.numbers == call.code:
                values[delivery.sender] = message.tensors[0]
            elif message.numbers[0] == call.number:  # an earlier number is from a lost worker, and came after the notice of its loss
                raise WorkloadError(
                    f"{self.port.name} calls worker.{call.kind}() where {delivery.sender} calls worker.{KINDS[int(message.numbers[1])]}(): "
                    "every worker must make the same calls in the same order."
                )
        return [values[name] for name in self.group.members[1:] if name in values]

    async def _follow_losses(self) -> None:
        if not self.follows_losses:
            self.follows_losses = True
            await self.losses.begin()
            await self.losses.subscribe(CALL)
