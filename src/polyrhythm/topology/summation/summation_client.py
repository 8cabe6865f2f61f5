"""A worker's side of a summation service: it sends everyone its part of a vector, sums its own, and collects the sums."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.topology import WorkerEndpoint
from polyrhythm.topology.summation.send_queue import Priority, SendQueue
from polyrhythm.topology.summation.shares import Stretch, sizes, weights
from polyrhythm.topology.summation.sum_server import drained
from polyrhythm.topology.summation.summation_records import SUMS, SumRequest


class SummationClient:
    """Several sums may be under way: they are distinguished by topics, and what they send goes by priority: first what others still
    wait for of an earlier round, then the least urgency. `rounds` counts the sums of each urgency.

    Each line out of a worker then has as many messages on it as there are workers: one to each server, and to as many others as keep the
    rates in proportion to what each machine sums.
    """

    def __init__(self, endpoint: WorkerEndpoint, nbytes: int) -> None:
        self.group = endpoint.group
        self.port = endpoint.port
        self.nbytes = nbytes
        self.servers = endpoint.servers
        self.shares = weights(self.group.size, len(self.servers))
        self.owners = (*self.group.members, *self.servers)
        self.rounds: Counter[int] = Counter()
        self.to_workers = SendQueue(self.port, self.group.size - len(self.servers))
        self.to_servers = SendQueue(self.port, len(self.servers))

    async def reduce(self, port: Port, group: Group, value: Tensor, topic: str) -> Tensor:
        """The sum of `value` (any shape) over all workers."""
        return await self.sum(value, topic, Stretch(0, value.numel()), 0)

    async def sum(self, value: Tensor, topic: str, stretch: Stretch, urgency: int) -> Tensor:
        """The sum of `value` (any shape), which is that stretch of a vector; the least urgency is sent first."""
        if self.group.size == 1 or not value.numel():
            return value.clone()
        self.rounds[urgency] += 1
        pieces, at = [], stretch.start
        count = -(-value.numel() * value.element_size() // self.nbytes)
        for number, part in enumerate(torch.tensor_split(value.reshape(-1), count)):
            where = Stretch(at, stretch.numel)
            pieces.append(_Piece(self, part, f"{topic}.{number}" if number else topic, where, (self.rounds[urgency], urgency, number)))
            at += part.numel()
        for piece in pieces:
            await piece.push()
        own = [await piece.sum_own() for piece in pieces]
        return torch.cat([await piece.collect(mine) for piece, mine in zip(pieces, own, strict=True)]).view(value.shape)

    async def finish(self) -> None:
        """Wait until all has left, and let the servers end."""
        await self._leave(Message(SUMS))

    async def drain(self, step: int) -> str:
        """Wait until all has left, and have the servers write their state after `step`. Returns what prevented one of them."""
        await self._leave(Message(SUMS, (float(step),)))
        return await drained(self.port, dict(enumerate(self.servers, self.group.size)))

    async def _leave(self, last: Message) -> None:
        await self.to_workers.drain()
        await self.to_servers.drain()
        for name in self.servers:
            await self.port.send(name, last)


@dataclass(frozen=True, slots=True)
class _Piece:
    """One piece of a vector, `value` (numel,), cut into a part for each owner: the workers by rank, then the servers."""

    client: SummationClient
    value: Tensor
    topic: str
    stretch: Stretch
    priority: Priority

    @property
    def parts(self) -> list[Tensor]:
        return list(torch.split(self.value, sizes(self.value.numel(), self.client.shares)))

    async def push(self) -> None:
        """Send every owner its part, beginning with the next in rank."""
        client, group = self.client, self.client.group
        parts, at = self.parts, self._starts()
        for step in range(1, group.size):
            to = (group.rank + step) % group.size
            if parts[to].numel():
                message = Message(f"{self.topic}.s.{group.rank}", tensors=(parts[to],))
                await client.to_workers.put(self.priority, group.members[to], message)
        for owner, name in enumerate(client.servers, group.size):
            if parts[owner].numel():
                request = SumRequest(at[owner], self.stretch.numel, self.priority)
                await client.to_servers.put(self.priority, name, Message(SUMS, request.to_numbers(), self.topic, (parts[owner],)))

    async def sum_own(self) -> Tensor:
        """Sum the part that is this worker's, and send it to all others."""
        client, group = self.client, self.client.group
        mine = self.parts[group.rank]
        if not mine.numel():
            return mine
        values = [mine] * group.size
        for step in range(1, group.size):
            sender = (group.rank + step) % group.size
            values[sender] = await self._receive(f"{self.topic}.s.{sender}", group.members[sender])
        total = Stretch(self._starts()[group.rank], self.stretch.numel).sum(values)
        for step in range(1, group.size):
            message = Message(f"{self.topic}.g.{group.rank}", tensors=(total,))
            await client.to_workers.put(self.priority, group.members[(group.rank + step) % group.size], message)
        return total

    async def collect(self, own: Tensor) -> Tensor:
        """The sum of the whole piece."""
        sums = self.parts
        for owner, name in enumerate(self.client.owners):
            if owner == self.client.group.rank:
                sums[owner] = own
            elif sums[owner].numel():
                sums[owner] = await self._receive(f"{self.topic}.g.{owner}", name)
        return torch.cat(sums)

    async def _receive(self, topic: str, sender: str) -> Tensor:
        delivery = await self.client.port.receive(topic, sender)
        assert delivery is not None
        return delivery.message.tensors[0]

    def _starts(self) -> list[int]:
        """The element of the vector with which each owner's part begins."""
        starts, at = [], self.stretch.start
        for part in self.parts:
            starts.append(at)
            at += part.numel()
        return starts
