"""A server that decodes what workers push, sums it, and answers with the sums."""

from __future__ import annotations

import msgspec
from torch import Tensor

from polyrhythm.kernel.message import Delivery, Message
from polyrhythm.pieces.codec import packets
from polyrhythm.pieces.requests import Packet
from polyrhythm.pieces.topology import Agreement, ServerEndpoint
from polyrhythm.tensors import Layout
from polyrhythm.topology.send_queue import SendQueue

LAYOUT, PUSHES = "layout", "push"
"""The topics. The text of a push is the tensor's number and the round, with a point between them; with one and the
server's rank after it, it is the topic of the sum.

A push without tensors is a worker's last, or its last before a checkpoint after the step that is its number.
"""


class SumLayout(msgspec.Struct, frozen=True):
    """What worker 0 sends a server at the beginning: the name and shape of its piece of each tensor, by number."""

    pieces: dict[str, tuple[str, tuple[int, ...]]]


class SumServer:
    """`packets` are those that wait for others: by sum and worker. The first tensors are answered first."""

    def __init__(self, agreement: Agreement, endpoint: ServerEndpoint) -> None:
        self.codec = packets(agreement.codec)
        self.port = endpoint.port
        self.workers = endpoint.workers
        self.rank = endpoint.group.rank
        self.layouts: dict[str, Layout] = {}
        self.packets: dict[str, dict[str, Packet]] = {}
        self.queue = SendQueue(self.port, len(self.workers))
        self.checkpoints = endpoint.checkpoints
        self.drained = 0
        self.ended = 0

    async def live(self) -> None:
        """Until every worker has sent its last message."""
        first = await self.port.receive(LAYOUT)
        assert first is not None
        pieces = msgspec.json.decode(first.message.text, type=SumLayout).pieces
        self.layouts = {number: Layout((name,), (shape,)) for number, (name, shape) in pieces.items()}
        while self.ended < len(self.workers):
            delivery = await self.port.receive(PUSHES)
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
        came = self.packets.setdefault(topic, {})
        came[delivery.sender] = delivery.message.tensors
        if len(came) < len(self.workers):
            return
        del self.packets[topic]
        number = topic.partition(".")[0]
        total = self._sum([came[name] for name in self.workers], self.layouts[number])
        for name in self.workers:
            await self.queue.put((int(number),), name, Message(f"{topic}.{self.rank}", tensors=(total,)))

    def _sum(self, each: list[Packet], layout: Layout) -> Tensor:
        """In the order of ranks."""
        total = self.codec.decode(each[0], layout)
        for packet in each[1:]:
            total = total + self.codec.decode(packet, layout)
        return total

    async def _drain(self, step: int) -> None:
        """A worker has sent all before a checkpoint. When all have, there is nothing to write but that nothing waits."""
        self.drained += 1
        if self.drained < len(self.workers):
            return
        self.drained = 0
        await self.queue.drain()
        problem = self.checkpoints.write(step, {"waiting": len(self.packets)})
        for name in self.workers:
            await self.port.send(name, Message(f"d{self.rank}", text=problem))
