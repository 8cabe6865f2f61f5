"""A machine that only sums."""

from __future__ import annotations

from torch import Tensor

from polyrhythm.kernel.message import Delivery, Message
from polyrhythm.pieces.topology import ServerEndpoint
from polyrhythm.topology.send_queue import SendQueue
from polyrhythm.topology.shares import Stretch
from polyrhythm.topology.summation_records import SUMS, SumRequest


class SummationServer:
    """`values` are those that wait for others: by sum and worker."""

    def __init__(self, endpoint: ServerEndpoint) -> None:
        self.port = endpoint.port
        self.workers = endpoint.workers
        self.owner = len(endpoint.workers) + endpoint.group.rank
        self.values: dict[str, dict[str, Tensor]] = {}
        self.queue = SendQueue(self.port, len(self.workers))
        self.checkpoints = endpoint.checkpoints
        self.drained = 0
        self.ended = 0

    async def live(self) -> None:
        """Until every worker has sent its last message."""
        while self.ended < len(self.workers):
            delivery = await self.port.receive(SUMS)
            assert delivery is not None
            if delivery.message.tensors:
                await self._take(delivery)
            elif delivery.message.numbers:
                await self._drain(int(delivery.message.numbers[0]))
            else:
                self.ended += 1
        await self.queue.drain()

    async def _take(self, delivery: Delivery) -> None:
        topic = delivery.message.text
        came = self.values.setdefault(topic, {})
        [came[delivery.sender]] = delivery.message.tensors
        if len(came) < len(self.workers):
            return
        del self.values[topic]
        request = SumRequest.from_numbers(delivery.message.numbers)
        total = Stretch(request.start, request.numel).sum([came[name] for name in self.workers])
        for name in self.workers:
            await self.queue.put(request.priority, name, Message(f"{topic}.g.{self.owner}", tensors=(total,)))

    async def _drain(self, step: int) -> None:
        """A worker has sent all before a checkpoint. When all have, there is nothing to write but that nothing waits."""
        self.drained += 1
        if self.drained < len(self.workers):
            return
        self.drained = 0
        await self.queue.drain()
        problem = self.checkpoints.write(step, {"waiting": len(self.values)})
        for name in self.workers:
            await self.port.send(name, Message(f"d{self.owner}", text=problem))
