"""A mirror's parcels to one other: added up while the line is busy or the mirror gathers them, and sent as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import NamedTuple

import torch
from torch import Tensor

from polyrhythm.core.kernel.latch import Latch
from polyrhythm.core.kernel.message import Message, wire_bytes
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.tensors import Layout
from polyrhythm.topology.overlay.barriers import announcement
from polyrhythm.topology.overlay.coverage import Span, from_numbers, joined, to_numbers

PARCELS = "u"


class Route(IntEnum):
    """The receiver's action on a parcel, in addition to taking it in."""

    KEEP = 0
    """Nothing."""
    DISTRIBUTE = 1
    """Send it to the other members of its group."""
    FORWARD = 2
    """Send it to the other members of its group but the sender, and to the hubs of the other groups."""
    ANNOUNCE = 3
    """There is no value yet: the elements of the sender's next parcel."""


class Parcel(NamedTuple):
    """Updates of some steps of some mirrors, added up: `value` (numel,), None where they come to nothing."""

    route: Route
    spans: Sequence[Span]
    value: Tensor | None


def packed(value: Tensor | None) -> Packet:
    """Nothing, indices and values of what is not zero, or all elements, whichever is shortest."""
    if value is None:
        return ()
    indices = value.nonzero().view(-1)
    if 2 * len(indices) >= len(value):
        return (value,)
    return (indices.to(torch.int32), value[indices]) if len(indices) else ()


def unpacked(packet: Packet, layout: Layout) -> Tensor | None:
    """The value (numel,) of which `packed` made the packet."""
    if len(packet) < 2:
        return packet[0] if packet else None
    indices, values = packet
    return values.new_zeros(layout.numel).index_copy_(0, indices.long(), values)


def read(message: Message, layout: Layout) -> Parcel:
    """The parcel of a message."""
    route, *spans = message.numbers
    return Parcel(Route(int(route)), from_numbers(spans), unpacked(message.tensors, layout))


class OverlaySender:
    """`pending` are parcels to be sent to one receiver, by route; while it is `busy`, some are on their way out.

    `announces` tells from the bytes of a message and the measured rate of the line, in bytes a second (0: not measured), whether its
    elements are announced.
    """

    def __init__(self, to: str, port: Port, announces: Callable[[int, float], bool]) -> None:
        self.to = to
        self.port = port
        self.announces = announces
        self.pending: dict[Route, Parcel] = {}
        self.rate = 0.0
        self.busy = False
        self.empty = Latch()

    def put(self, parcel: Parcel) -> None:
        """Queue a parcel, to be sent with the pending one on the same route."""
        pending = self.pending.get(parcel.route)
        if pending is not None:
            values = [value for value in (pending.value, parcel.value) if value is not None]
            parcel = Parcel(parcel.route, joined([*pending.spans, *parcel.spans]), sum(values[1:], values[0]) if values else None)
        self.pending[parcel.route] = parcel

    async def start(self) -> None:
        """Send pending parcels, at once or when the line is free."""
        if self.pending and not self.busy:
            self.busy = True
            self.empty = Latch()
            await self.port.spawn(f"to {self.to}", self._send())

    async def settle(self) -> None:
        """Wait until nothing is pending or on its way out."""
        await self.start()
        if self.busy:
            await self.port.wait(self.empty)

    async def _send(self) -> None:
        while self.pending:
            parcel = self.pending.pop(next(iter(self.pending)))
            message = Message(PARCELS, (float(parcel.route), *to_numbers(parcel.spans)), tensors=packed(parcel.value))
            nbytes = wire_bytes(message)
            if parcel.value is not None and message.tensors and self.announces(nbytes, self.rate):
                await self.port.send(self.to, Message(PARCELS, (float(Route.ANNOUNCE),), tensors=(announcement(parcel.value),)))
            began = self.port.now()
            await self.port.send(self.to, message)
            await self.port.flush(self.to)
            if (seconds := self.port.now() - began) > 0:
                self.rate = nbytes / seconds
        self.busy = False
        self.empty.open()
