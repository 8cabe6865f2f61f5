"""Background sums, in runs that continue without a lost worker: the first worker adds up the values that arrive, while workers compute."""

from __future__ import annotations

import torch
from torch import Tensor

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.latch import Latch
from polyrhythm.core.kernel.message import CALL, Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.strategy.current_view import CurrentView

_TO_ZERO = f"{CALL}/background"
"""The topic of the values at the first worker, and of notices of lost workers there."""


class SurvivorTotals:
    """One worker's side: P - 1 messages to the first and as many back. A lost worker counts if its value came before the notice."""

    def __init__(self, port: Port, current: CurrentView) -> None:
        self._port = port
        self._current = current
        self._view = current.now
        self._values: dict[float, dict[str, Tensor]] = {}
        self._topics: dict[float, str] = {}
        self._own: dict[float, tuple[Tensor, int]] = {}
        self._came: dict[float, Latch] = {}
        self._listens = False

    async def begin(self, value: Tensor, number: float, topic: str, group: Group) -> None:
        """Send `value` for the sum of that `number` over `group`, whose result has the topic `topic`."""
        if not group.is_first:
            await self._port.send(group.first, Message(_TO_ZERO, (number,), tensors=(value,)))
            return
        self._topics[number], self._came[number] = topic, Latch()
        self._values.setdefault(number, {})[self._port.name] = value
        if not self._listens and group.size > 1:
            self._listens = True
            await self._current.begin()
            await self._current.subscribe(_TO_ZERO)
            await self._port.spawn("background sums", self._listen(group))
        await self._answer(group)

    async def result(self, number: float, topic: str, group: Group) -> tuple[Tensor, int]:
        """The sum, and the number of workers in it."""
        if not group.is_first:
            delivery = await self._port.receive(topic, group.first)
            assert delivery is not None
            return delivery.message.tensors[0], int(delivery.message.numbers[0])
        await self._port.wait(self._came[number])
        del self._came[number]
        return self._own.pop(number)

    async def _listen(self, group: Group) -> None:
        while True:
            delivery = await self._port.receive(_TO_ZERO)
            assert delivery is not None
            message = delivery.message
            if message.text:
                self._view = self._view.without(message.text)
            else:
                self._values.setdefault(message.numbers[0], {})[delivery.sender] = message.tensors[0]
            await self._answer(group)

    async def _answer(self, group: Group) -> None:
        """Send the sums that are complete, in the order of their numbers; values are added in the order of ranks."""
        while self._topics:
            number = min(self._topics)
            if any(name not in self._values[number] and self._view.present(name) for name in group.members):
                return
            topic, values = self._topics.pop(number), self._values.pop(number)
            summed = torch.stack([values[name] for name in group.members if name in values]).sum(dim=0)
            self._own[number] = summed, len(values)
            self._came[number].open()
            for name in group.members[1:]:
                await self._port.send(name, Message(topic, (float(len(values)),), tensors=(summed,)))
