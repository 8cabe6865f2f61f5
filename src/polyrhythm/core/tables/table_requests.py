"""A worker's requests to the servers of a table, and their responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.tables.records import (
    REQUESTS,
    ReadStatus,
    TableAdopt,
    TableDone,
    TableDrain,
    TableRead,
    TableRelease,
    TableRequest,
    TableUpdate,
    to_numbers,
)
from polyrhythm.core.tables.shape import TableShape


class TableResponse(NamedTuple):
    """A server's response to a request for `asked`: the current `rows` that the reader did not have, and their packet."""

    asked: Tensor
    rows: Tensor
    packet: Packet
    status: ReadStatus


class TableRequests:
    """`versions` and `visible` are, by server, the version of the last response, and the clock up to which it contains own updates."""

    def __init__(self, shape: TableShape, servers: tuple[str, ...], port: Port) -> None:
        self.shape = shape
        self.names = servers
        self.port = port
        self.versions = [0] * len(servers)
        self.visible = [0] * len(servers)

    async def push(self, clock: int, rows: Tensor, packet: Packet, released: Packet = ()) -> None:
        """Send each server the updates of its rows up to `clock`; a server without any gets the clock alone.

        `released` are the rows of which something is given up, and their packet: in the same message, so that a server has both or none.
        """
        await self.port.flush()  # nobody waits for a response, so updates would pile up on a line that is too slow
        kind = TableRelease if released else TableUpdate
        for k in range(len(self.names)):
            tensors = (*self._part(k, rows, packet), *(self._part(k, released[0], released[1:]) if released else ()))
            await self._send(k, kind(clock, self.versions[k]), tensors)

    async def adopt(self, number: int, rows: Tensor, packet: Packet) -> list[tuple[Tensor, Packet]]:
        """Ask for what nobody has of `rows`, each given once; the places among them of what each server answers, and its packets."""
        asked = [self._of(k, rows).nonzero().view(-1) for k in range(len(self.names))]
        for k, places in enumerate(asked):
            if len(places):
                await self._send(k, TableAdopt(number), self._part(k, rows, packet))
        return [(places, (await self._receive(f"a{k}", k)).tensors) for k, places in enumerate(asked) if len(places)]

    async def read(self, clock: int, rows: Tensor, since: Callable[[Tensor], Tensor]) -> list[TableResponse]:
        """Read `rows`, each given once, and wait for all responses; `since` gives the known version of each row, -1 where none is known."""
        asked = []
        for k in range(len(self.names)):
            mine = rows[self._of(k, rows)]
            versions = since(mine)
            known, unknown = mine[versions >= 0], mine[versions < 0]
            asked.append((known, unknown))
            if len(mine):
                every = len(known) == len(self.shape.kept_by(k, len(self.names)))
                oldest = int(versions[versions >= 0].min()) if len(known) else 0
                tensors = (self._local(known[:0] if every else known), self._local(unknown))
                await self._send(k, TableRead(clock, oldest, every), tensors)
        return [await self._answer(k, *lists) for k, lists in enumerate(asked) if len(lists[0]) + len(lists[1])]

    async def end(self) -> None:
        """Tell every server that this worker has sent all."""
        for k in range(len(self.names)):
            await self._send(k, TableDone())

    async def content(self) -> list[Packet]:
        """Wait for the final rows of each server, which worker 0 gets when all workers have ended."""
        return [(await self._receive(f"f{k}", k)).tensors for k in range(len(self.names))]

    async def drain(self, step: int) -> str:
        """Have the servers write their state, after all that this worker has sent. Returns the first error, as a sentence; else ""."""
        for k in range(len(self.names)):
            await self._send(k, TableDrain(step))
        problems = [(await self._receive(f"d{k}", k)).text for k in range(len(self.names))]
        return next(filter(None, problems), "")

    async def _answer(self, k: int, known: Tensor, unknown: Tensor) -> TableResponse:
        message = await self._receive(f"r{k}", k)
        version, slowest, own = message.numbers
        status = ReadStatus(int(version), slowest, int(own))
        self.versions[k], self.visible[k] = status.version, status.own
        places, *packet = message.tensors
        return TableResponse(torch.cat([known, unknown]), torch.cat([known[places.long()], unknown]), tuple(packet), status)

    async def _receive(self, topic: str, k: int) -> Message:
        delivery = await self.port.receive(topic, self.names[k])
        assert delivery is not None
        return delivery.message

    async def _send(self, k: int, request: TableRequest, tensors: tuple[Tensor, ...] = ()) -> None:
        await self.port.send(self.names[k], Message(REQUESTS, to_numbers(request), tensors=tensors))

    def _part(self, k: int, rows: Tensor, packet: Packet) -> Packet:
        """The rows that server k keeps, as it numbers them, and their packet."""
        places = self._of(k, rows).nonzero().view(-1)
        return self._local(rows[places]), *self.shape.kind.take(packet, places)

    def _of(self, k: int, rows: Tensor) -> Tensor:
        return rows % len(self.names) == k

    def _local(self, rows: Tensor) -> Tensor:
        local = torch.div(rows, len(self.names), rounding_mode="floor")
        return local if self.shape.rows > torch.iinfo(torch.int32).max else local.to(torch.int32)
