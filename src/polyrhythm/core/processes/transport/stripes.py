"""One payload in several pieces, cut by the sender and put together by the receiver."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

import torch
from torch import Tensor

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.processes.transport.decoder import check_values
from polyrhythm.core.processes.transport.wire import Shape, Stripe, encode_stripe, nbytes
from polyrhythm.core.tensors import as_bytes
from polyrhythm.errors import WireError

_MOST_AHEAD = 1 << 16
"""The stripes of so many messages may overtake a message's own frame."""


def cut(message: Message, number: int, size: int) -> Iterator[list[memoryview]]:
    """The stripes of a message's payload, of `size` bytes but for the last: each a head and the memory it stands for, not copied."""
    buffers = [as_bytes(tensor) for tensor in message.tensors if tensor.numel()]
    total = sum(len(buffer) for buffer in buffers)
    offset, length, views = 0, 0, list[memoryview]()
    for buffer in buffers:
        while len(buffer):
            views.append(buffer[: size - length])
            buffer = buffer[len(views[-1]) :]
            length += len(views[-1])
            if length == size or offset + length == total:
                yield [memoryview(encode_stripe(Stripe(number, offset, total), length)), *views]
                offset, length, views = offset + length, 0, []


def can_be_cut(message: Message) -> bool:
    """True if each tensor lies at a multiple of its element's size in the payload, so that the receiver can use it where it lies."""
    at = 0
    for tensor in message.tensors:
        if tensor.numel() and at % tensor.element_size():
            return False
        at += tensor.numel() * tensor.element_size()
    return True


class Assembly:
    """Puts the payloads of one peer together (`wire.StripeSink`), from stripes in any order and over any number of connections.

    A stripe may come before the frame that it belongs to: its connection may be the faster one. What a stripe announces is checked against
    what is known; one that lies over another, or belongs to a message that is whole, is malformed.
    """

    def __init__(self) -> None:
        self._payloads: dict[int, _Payload] = {}
        self._announced = 0
        self._released = 0

    def announce(self, number: int, shapes: list[Shape]) -> tuple[Tensor, ...]:
        """The tensors of message `number`; their values are there when `release` returns True."""
        total = sum(map(nbytes, shapes))
        if number != self._announced or not total:
            raise WireError(f"A frame announces striped message {number} of {total} bytes; the next number is {self._announced}.")
        payload = self._payload(Stripe(number, 0, total))
        self._announced += 1
        payload.tensors = payload.views(shapes)
        return payload.tensors

    def place(self, stripe: Stripe, length: int) -> memoryview:
        """The memory where `length` bytes belong, and which is then taken."""
        return self._payload(stripe).take(stripe.offset, length)

    def fill(self, stripe: Stripe, length: int) -> None:
        """Note that these bytes have come."""
        self._payloads[stripe.number].missing -= length

    def release(self) -> bool:
        """True if the oldest message that was announced is whole; then the next call is about the next one."""
        payload = self._payloads[self._released]
        if payload.missing:
            return False
        del self._payloads[self._released]
        self._released += 1
        for tensor in payload.tensors:
            check_values(tensor)
        return True

    def _payload(self, stripe: Stripe) -> _Payload:
        payload = self._payloads.get(stripe.number)
        if payload is None:
            if not 0 <= stripe.number - self._announced < _MOST_AHEAD:
                raise WireError(f"A stripe is of message {stripe.number}, which is whole or far from being sent.")
            payload = self._payloads[stripe.number] = _Payload(stripe.total)
        if payload.total != stripe.total:
            raise WireError(f"Message {stripe.number} has {payload.total} bytes of payload by one frame and {stripe.total} by another.")
        return payload


class _Payload:
    """`missing` counts the bytes that have not come; the ranges of those that have, or are coming, are in `starts` and `ends`, sorted."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.missing = total
        self.tensors: tuple[Tensor, ...] = ()
        self._flat = torch.empty(total, dtype=torch.uint8)
        self._bytes = as_bytes(self._flat)
        self._starts: list[int] = []
        self._ends: list[int] = []

    def take(self, offset: int, length: int) -> memoryview:
        end = offset + length
        at = bisect_left(self._starts, offset)
        before = self._ends[at - 1] if at else 0
        after = self._starts[at] if at < len(self._starts) else self.total
        if offset < before or end > after:
            raise WireError(f"A stripe of {length} bytes at {offset} lies over another, or over the end of its {self.total} bytes.")
        self._starts.insert(at, offset)
        self._ends.insert(at, end)
        return self._bytes[offset:end]

    def views(self, shapes: list[Shape]) -> tuple[Tensor, ...]:
        found, at = [], 0
        for shape in shapes:
            part = self._flat[at : at + nbytes(shape)]
            if part.numel() and at % shape[0].itemsize:
                raise WireError("A striped frame has a tensor that does not lie at a multiple of its element's size.")
            found.append(part.view(shape[0]).view(shape[1]) if part.numel() else torch.empty(shape[1], dtype=shape[0]))
            at += part.numel()
        return tuple(found)
