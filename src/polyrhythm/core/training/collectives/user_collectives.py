"""Collectives of the user's own values: over a tree, or through the first of them where another may be lost.

Messages to the first worker and notices of lost workers have the topic CALL; results and broadcasts have that of their call. The topic of
a call contains its kind, so that a mean is never matched with a barrier.
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
from polyrhythm.core.strategy.current_view import CurrentView
from polyrhythm.core.strategy.strategy import Strategy
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
    """One worker's side. All workers make the same calls, which are numbered; each is of a group of them, as this worker sees it."""

    async def total(self, value: Tensor, call: UserCall, group: Group) -> Summed:
        """The sum over the group, the same bits for all, and the number of workers in it."""

    async def begin(self, value: Tensor, call: UserCall, group: Group) -> Callable[[], Coroutine[Effect[Any], Any, Summed]]:
        """Start a `total` in the background. The returned function is to be called once; its coroutine returns the total."""

    async def broadcast(self, message: Message, call: UserCall, group: Group) -> Message:
        """The message of the group's first worker; its topic is ignored."""


class TreeCollectives:
    """For runs that end with the first worker that is lost: 2 (P - 1) messages and 2 ⌈log2 P⌉ latencies for a sum."""

    def __init__(self, port: Port) -> None:
        self.port = port

    async def total(self, value: Tensor, call: UserCall, group: Group) -> Summed:
        """The sum by a tree reduction."""
        return await Tree().reduce(self.port, group, value, call.topic), group.size

    async def begin(self, value: Tensor, call: UserCall, group: Group) -> Callable[[], Coroutine[Effect[Any], Any, Summed]]:
        """Start the sum, which is computed while the worker computes."""
        summed, ended = list[Tensor](), Latch()

        async def run() -> None:
            summed.append((await self.total(value, call, group))[0])
            ended.open()

        async def end() -> Summed:
            await self.port.wait(ended)
            return summed[0], group.size

        await self.port.spawn(call.topic, run())
        return end

    async def broadcast(self, message: Message, call: UserCall, group: Group) -> Message:
        """The first worker's message, sent over a binomial tree."""
        message.topic = call.topic
        return await broadcast_message(self.port, group, message)


class SurvivorCollectives:
    """For runs that continue without a lost worker, except the first: all send to the group's first, and that sends to all.

    2 (P - 1) messages and two latencies for a sum. A lost worker counts if its message came before the notice of its loss.
    """

    def __init__(self, port: Port, current: CurrentView) -> None:
        self.port = port
        self.current = current
        self.view = current.now
        self.follows_losses = False
        self.totals = SurvivorTotals(port, current)

    async def total(self, value: Tensor, call: UserCall, group: Group) -> Summed:
        """The sum, which the first computes in the order of ranks."""
        if group.is_first:
            values = await self._receive(call, group)
            summed = torch.stack([value, *values]).sum(dim=0)
            result = await self.broadcast(Message("", (float(len(values) + 1),), tensors=(summed,)), call, group)
        else:
            await self.port.send(group.first, Message(CALL, call.code, tensors=(value,)))
            result = await self.broadcast(Message(""), call, group)
        return result.tensors[0], int(result.numbers[0])

    async def begin(self, value: Tensor, call: UserCall, group: Group) -> Callable[[], Coroutine[Effect[Any], Any, Summed]]:
        """Start the sum, which is computed while the worker computes."""
        await self.totals.begin(value, call.code[0], call.topic, group)
        return partial(self.totals.result, call.code[0], call.topic, group)

    async def broadcast(self, message: Message, call: UserCall, group: Group) -> Message:
        """The first worker's message, which it sends to every worker directly."""
        message.topic = call.topic
        return await flat_broadcast_message(self.port, group, message)

    async def _receive(self, call: UserCall, group: Group) -> list[Tensor]:
        """The values of the other workers, by rank."""
        await self._follow_losses()
        values: dict[str, Tensor] = {}
        while any(name not in values and self.view.present(name) for name in group.members[1:]):
            delivery = await self.port.receive(CALL)
            assert delivery is not None
            message = delivery.message
            if message.text:
                self.view = self.view.without(message.text)
            elif message.numbers == call.code:
                values[delivery.sender] = message.tensors[0]
            elif message.numbers[0] == call.number:  # an earlier number is from a lost worker, and came after the notice of its loss
                raise WorkloadError(
                    f"{self.port.name} calls worker.{call.kind}() where {delivery.sender} calls worker.{KINDS[int(message.numbers[1])]}(): "
                    "every worker must make the same calls in the same order."
                )
        return [values[name] for name in group.members[1:] if name in values]

    async def _follow_losses(self) -> None:
        if not self.follows_losses:
            self.follows_losses = True
            await self.current.begin()
            await self.current.subscribe(CALL)


def collectives(strategy: Strategy, port: Port, current: CurrentView) -> UserCollectives:
    """One worker's side in a run by `strategy`."""
    return SurvivorCollectives(port, current) if strategy.tolerates_loss else TreeCollectives(port)
