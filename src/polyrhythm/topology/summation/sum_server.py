"""A server that sums what workers push, and answers with the sums. The servers of `ServedSums` and `Summation` run it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor

from polyrhythm.core.kernel.message import Delivery, Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.topology import ServerEndpoint
from polyrhythm.topology.summation.send_queue import Priority, SendQueue


class SumResponse(NamedTuple):
    """A sum, which goes to all workers under `topic`."""

    priority: Priority
    topic: str
    total: Tensor


class SumRule(Protocol):
    """The rule by which a server sums. `topic` is that of the workers' pushes, `number` the server's number at the workers."""

    topic: str
    number: int

    async def begin(self, port: Port) -> None:
        """Prepare before the first push."""

    def respond(self, last: Message, packets: list[Packet]) -> SumResponse:
        """The sum of `packets`, by rank; `last` is the message with the one that came last, and its text is the name of the sum."""


class SumServer:
    """`packets` are those that wait for others: by sum and worker.

    A push without tensors is a worker's last, or its last before a checkpoint after the step that is its number.
    """

    def __init__(self, endpoint: ServerEndpoint, rule: SumRule) -> None:
        self.rule = rule
        self.port = endpoint.port
        self.workers = endpoint.workers
        self.packets: dict[str, dict[str, Packet]] = {}
        self.queue = SendQueue(self.port, len(self.workers))
        self.checkpoints = endpoint.checkpoints
        self.drained = 0
        self.ended = 0

    async def live(self) -> None:
        """Until every worker has sent its last message."""
        await self.rule.begin(self.port)
        while self.ended < len(self.workers):
            delivery = await self.port.receive(self.rule.topic)
            assert delivery is not None
            if delivery.message.tensors:
                await self._take(delivery)
            elif delivery.message.numbers:
                await self._drain(int(delivery.message.numbers[0]))
            else:
                self.ended += 1
        await self.queue.drain()

    async def _take(self, delivery: Delivery) -> None:
        name = delivery.message.text
        came = self.packets.setdefault(name, {})
        came[delivery.sender] = delivery.message.tensors
        if len(came) < len(self.workers):
            return
        del self.packets[name]
        priority, topic, total = self.rule.respond(delivery.message, [came[worker] for worker in self.workers])
        for worker in self.workers:
            await self.queue.put(priority, worker, Message(topic, tensors=(total,)))

    async def _drain(self, step: int) -> None:
        """A worker has sent all before a checkpoint. When all have, there is nothing to write but that nothing waits."""
        self.drained += 1
        if self.drained < len(self.workers):
            return
        self.drained = 0
        await self.queue.drain()
        problem = self.checkpoints.write(step, {"waiting": len(self.packets)})
        for worker in self.workers:
            await self.port.send(worker, Message(f"d{self.rule.number}", text=problem))


async def drained(port: Port, servers: dict[int, str]) -> str:
    """Wait until the servers, by the numbers that workers give them, have written their states. Returns what prevented one of them."""
    problems = []
    for number, name in servers.items():
        delivery = await port.receive(f"d{number}", name)
        assert delivery is not None
        problems.append(delivery.message.text)
    return next(filter(None, problems), "")
