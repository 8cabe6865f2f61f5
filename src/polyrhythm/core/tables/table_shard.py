"""A server's rows of a table: adds up the workers' updates, and answers reads when the clock table allows them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from polyrhythm.core.kernel.events import Merged
from polyrhythm.core.kernel.message import Delivery, Message
from polyrhythm.core.kernel.view import View
from polyrhythm.core.protocols.consistency import Consistency
from polyrhythm.core.protocols.losses import follow_losses
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.state import admitted
from polyrhythm.core.protocols.topology import ServerEndpoint
from polyrhythm.core.tables.clock_table import ClockTable, Flushed
from polyrhythm.core.tables.records import (
    REQUESTS,
    ReadStatus,
    TableAdopt,
    TableDone,
    TableDrain,
    TableRead,
    TableRelease,
    TableUpdate,
    from_numbers,
)
from polyrhythm.core.tables.shape import TableShape
from polyrhythm.core.trees import StateTree


class RowUpdate(NamedTuple):
    """Values to add to local rows (n,), from a worker that knew `version`; `released` are local rows and a packet, or nothing."""

    rows: Tensor
    packet: Packet
    version: int
    released: Packet = ()


class PendingRead(NamedTuple):
    """A read that waits, with its two lists of local rows: those that the reader has, and those that it does not."""

    request: TableRead
    known: Tensor
    unknown: Tensor


class Adoption(NamedTuple):
    """A worker's request, of this `number`, for what nobody has of these local rows."""

    sender: str
    number: int
    rows: Tensor
    packet: Packet


class TableShard:
    """The rows of one server. `changed` is, by local row, the `version` at which it last changed: each merge makes a new version."""

    def __init__(self, shape: TableShape, consistency: Consistency, endpoint: ServerEndpoint) -> None:
        self.shape = shape
        self.port = endpoint.port
        self.rank = endpoint.group.rank
        self.record = endpoint.record
        self.snapshots = endpoint.snapshots
        self.checkpoints = endpoint.checkpoints
        self.every = torch.arange(len(shape.kept_by(self.rank, endpoint.group.size)))
        self.store = shape.kind.store(len(self.every), shape.columns)
        self.leases = shape.kind.leases(len(self.every), shape.columns)
        self.adoptions: list[Adoption] = []
        self.view = View.of(endpoint.workers)
        self.clocks: ClockTable[RowUpdate] = ClockTable(consistency, endpoint.workers)
        self.version = 0
        self.changed = torch.zeros(len(self.every), dtype=torch.int64)
        self.waiting: dict[str, PendingRead] = {}
        self.drained: dict[str, int] = {}

    async def live(self, given: tuple[Tensor, ...]) -> None:
        """Serve until every remaining worker is done; then send all rows to the first. `given` are the initial rows and their packet."""
        await follow_losses(self.port, self._lose)
        if given:
            self.store.put(given[0].long(), given[1:])
            self.leases.begin(given[0].long(), given[1:])
        self.checkpoints.resume(self.restore, self.export)
        while not self.clocks.over:
            delivery = await self.port.receive(REQUESTS)
            assert delivery is not None
            self._take(delivery)
            await self._advance()
        await self.port.send(self.view.first, Message(f"f{self.rank}", tensors=self.store.read(self.every)))

    async def _lose(self, name: str) -> None:
        self.view = self.view.without(name)
        self.clocks.lose(name)
        self.waiting.pop(name, None)
        await self.port.send(self.port.name, Message(REQUESTS))

    def _take(self, delivery: Delivery) -> None:
        sender, message = delivery.sender, delivery.message
        if sender not in self.clocks.clocks:
            return  # the worker was lost in the meantime, or this is the notice of it
        match request := from_numbers(message.numbers):
            case TableUpdate() | TableRelease() if request.clock <= self.clocks.last(sender):
                pass  # it has come before the crew changed
            case TableUpdate() | TableRelease():
                self.clocks.take(Flushed(sender, request.clock, _update(request, message.tensors)))
            case TableAdopt():
                rows, *packet = message.tensors
                self.adoptions.append(Adoption(sender, request.number, rows.long(), tuple(packet)))
            case TableRead():
                known, unknown = (rows.long() for rows in message.tensors)
                self.waiting[sender] = PendingRead(request, self.every if request.every else known, unknown)
            case TableDone():
                self.clocks.end(sender)
            case TableDrain():
                self.drained[sender] = request.step

    async def _advance(self) -> None:
        """Merge what can be merged, write the state when all workers have drained, and respond to all that may read."""
        while group := self.clocks.next_group():
            await self._merge(group)
        while self.adoptions:
            asked = self.adoptions.pop(0)
            await self.port.send(asked.sender, Message(f"a{self.rank}", tensors=self.leases.adopt(*asked)))
        if self.drained and not self.clocks.clocks.keys() - self.drained.keys():
            step = max(self.drained.values())
            self.drained.clear()
            problem = self.checkpoints.write(step, self.export())
            for name in self.clocks.clocks:
                await self.port.send(name, Message(f"d{self.rank}", text=problem))
        for name, pending in list(self.waiting.items()):
            if self.clocks.may_read(pending.request.clock):
                del self.waiting[name]
                await self._respond(name, pending)

    async def _merge(self, group: list[Flushed[RowUpdate]]) -> None:
        began = self.port.now()
        if self.snapshots.due(began):
            self.snapshots.look(began, self.shape.kind.flat(self.store.read(self.every), self.shape.columns))
        staleness = [self.version - flush.content.version for flush in group]
        self.version += 1
        for flush in group:
            self._add(flush.sender, flush.content)
        now = self.port.now()
        self.record(Merged(now, self.port.name, self.version, staleness, now - began))
        await self.port.merged(len(group))

    def _add(self, sender: str, update: RowUpdate) -> None:
        self.store.add(update.rows, update.packet)
        self.leases.add(sender, update.rows, update.packet)
        if update.released:
            self.leases.release(sender, update.released[0], update.released[1:])
        self.changed[update.rows] = self.version

    async def _respond(self, name: str, pending: PendingRead) -> None:
        places = (self.changed[pending.known] > pending.request.since).nonzero().view(-1)
        packet = self.store.read(torch.cat([pending.known[places], pending.unknown]))
        status = ReadStatus(self.version, self.clocks.slowest, self.clocks.clocks[name])
        await self.port.send(name, Message(f"r{self.rank}", tuple(map(float, status)), tensors=(places.to(torch.int32), *packet)))

    def export(self) -> StateTree:
        waiting = [flush for line in self.clocks.pending.values() for flush in line]
        return {
            "rows": self.store.held,
            "packet": self.store.read(self.store.held),
            "changed": self.changed,
            "version": self.version,
            "clocks": self.clocks.clocks,
            "leases": self.leases.export(),
            "pending": [(each.sender, each.clock, tuple(each.content)) for each in waiting],
        }

    def restore(self, state: StateTree) -> None:
        self.store.keep(self.store.held[:0])
        self.store.put(state["rows"], state["packet"])
        self.changed, self.version = state["changed"], state["version"]
        self.clocks.clocks = admitted(state["clocks"], self.view.members, 0)
        self.leases.restore(state["leases"])
        for sender, clock, content in state["pending"]:
            update = RowUpdate(*content)
            if self.view.present(sender):
                self.clocks.take(Flushed(sender, clock, update))
            else:  # of a worker that has left, for whom nobody waits
                self.version += 1
                self._add(sender, update)
        self.leases.end(self.view.members)


def _update(request: TableUpdate | TableRelease, tensors: Packet) -> RowUpdate:
    """The update that a message has; the second half of the tensors of a `TableRelease` is what the sender gives up."""
    half = len(tensors) // (1 + (type(request) is TableRelease))
    released = (tensors[half].long(), *tensors[half + 1 :]) if half < len(tensors) else ()
    return RowUpdate(tensors[0].long(), tuple(tensors[1:half]), request.version, released)
