"""Messages as bytes: a small typed header and the raw buffers of the tensors, exactly `kernel.message.wire_bytes` long.

    header   magic "PR" | version u8 | flags u8 | topic u16 | numbers u16 | text u32 | tensors u16 | zero u16 | payload u64
    fixed    topic | text | numbers as float64 | per tensor: dtype u8, dimensions u8, zero u16
    shapes   per tensor and dimension: u64
    slot     only with the flag SHARED: number u32, new u32; the payload is then in that slot of shared memory
    number   only with the flag STRIPED: u64, counting such frames of one connection; the payload comes in stripes
    payload  the raw buffers, end to end

A stripe is a frame with the flag STRIPE, an empty topic and nothing else in it but

    stripe   number u64, offset u64, total u64: where in the payload of which STRIPED frame it belongs, and how long that is
    payload  its bytes

All is little-endian. Nothing is ever unpickled. A length is believed only up to its limit, and the memory of a tensor is
allocated when its turn comes (the system backs it with pages as they fill).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from math import prod
from operator import attrgetter, gt
from typing import Protocol

import torch
from torch import Tensor

from polyrhythm.core.kernel.message import DTYPES, HEADER_BYTES, TENSOR_HEADER_BYTES, Message
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import as_bytes
from polyrhythm.errors import WireError

MAGIC = b"PR"
VERSION = 4
CONTROL = 1
SHARED = 2
STRIPED = 4
STRIPE = 8

HEADER = struct.Struct("<2sBBHHIHHQ")
TENSOR = struct.Struct("<BBH")
SLOT = struct.Struct("<II")
NUMBER = struct.Struct("<Q")
STRIPE_PLACE = struct.Struct("<QQQ")
_SHAPE, _NBYTES = attrgetter("shape"), attrgetter("nbytes")
_CODES = {dtype: code for code, dtype in enumerate(DTYPES)}
_SIZES = tuple(dtype.itemsize for dtype in DTYPES)
assert HEADER.size == HEADER_BYTES
assert TENSOR.size == TENSOR_HEADER_BYTES


@dataclass(frozen=True, slots=True)
@checked
class Limits:
    """The most that a frame may hold: bytes of topic, text and payload; numbers, tensors, and dimensions of a tensor."""

    topic: int = 200
    text: int = 4 * 1024 * 1024
    numbers: int = 4096
    tensors: int = 4096
    dimensions: int = 8
    payload: int = 4 << 30


_DEFAULT = Limits()


@dataclass(slots=True)
class Tally:
    """The counts of decoders: good frames, and streams that were given up for malformed bytes."""

    accepted: int = 0
    rejected: int = 0


@dataclass(slots=True)
class Frame:
    """A decoded message and its flags; CONTROL frames are the runtime's own and are not counted as traffic."""

    flags: int
    message: Message


@dataclass(slots=True)
class Slot:
    """The place of a frame's payload in shared memory; `new` when the receiver gets the slot's memory with this frame."""

    number: int
    new: bool


@dataclass(frozen=True, slots=True)
class Stripe:
    """`offset` in bytes in the payload of the STRIPED frame of that `number`, which has `total` bytes."""

    number: int
    offset: int
    total: int


Shape = tuple[torch.dtype, tuple[int, ...]]
Fetch = Callable[[Slot, list[Shape]], tuple[Tensor, ...]]


class StripeSink(Protocol):
    """An assembly that puts stripes together. All three raise WireError on what cannot be."""

    def announce(self, number: int, shapes: list[Shape]) -> tuple[Tensor, ...]:
        """A STRIPED frame has come: its tensors, which fill as the stripes come."""

    def place(self, stripe: Stripe, length: int) -> memoryview:
        """The memory where the `length` bytes of `stripe` belong."""

    def fill(self, stripe: Stripe, length: int) -> None:
        """Note that the `length` bytes of `stripe` have come."""


def nbytes(shape: Shape) -> int:
    """Bytes of a tensor of this type and these dimensions."""
    return shape[0].itemsize * prod(shape[1])


def _head(message: Message, flags: int, limits: Limits) -> bytes:
    topic, text, tensors, numbers = message.topic.encode(), message.text.encode(), message.tensors, message.numbers
    shapes = list(map(_SHAPE, tensors))
    payload = sum(map(_NBYTES, tensors))
    given = (len(topic), len(text), len(numbers), len(tensors), max(map(len, shapes), default=0), payload)
    allowed = (limits.topic, limits.text, limits.numbers, limits.tensors, limits.dimensions, limits.payload)
    if any(map(gt, given, allowed)):
        size, limit, what = next(triple for triple in zip(given, allowed, WHAT, strict=True) if triple[0] > triple[1])
        raise WireError(f"A message {message.topic[:40]!r} has {size} {what}, and at most {limit} can be sent: cut it into several.")
    head = HEADER.pack(MAGIC, VERSION, flags, len(topic), len(numbers), len(text), len(tensors), 0, payload) + topic + text
    if numbers:
        head += struct.pack(f"<{len(numbers)}d", *numbers)
    if not tensors:
        return head
    try:
        kinds = b"".join([TENSOR.pack(_CODES[tensor.dtype], len(shape), 0) for tensor, shape in zip(tensors, shapes, strict=True)])
    except KeyError as unknown:
        raise WireError(f"A message {message.topic[:40]!r} holds a tensor of {unknown.args[0]}, which has no code on the wire.") from None
    dimensions = list(chain.from_iterable(shapes))
    return head + kinds + struct.pack(f"<{len(dimensions)}Q", *dimensions)


WHAT = ("bytes of topic", "bytes of text", "numbers", "tensors", "dimensions in one tensor", "bytes of payload")


def encode(message: Message, flags: int = 0, limits: Limits | None = None) -> list[bytes | memoryview]:
    """The buffers that make up a frame: its head, and the memory of each tensor, not copied. Raises WireError on what cannot be sent."""
    buffers: list[bytes | memoryview] = [_head(message, flags, limits or _DEFAULT)]
    for tensor in message.tensors:
        if tensor.numel():
            buffers.append(as_bytes(tensor))
    return buffers


def packed(data: bytes) -> tuple[Tensor, ...]:
    """Bytes as the payload of a message of the runtime's own."""
    return (torch.frombuffer(bytearray(data), dtype=torch.uint8),)


def encode_striped(message: Message, number: int, limits: Limits) -> bytes:
    """A frame whose payload comes in stripes."""
    return _head(message, STRIPED, limits) + NUMBER.pack(number)


def encode_stripe(stripe: Stripe, length: int) -> bytes:
    """The head that goes before the `length` bytes of a stripe."""
    return HEADER.pack(MAGIC, VERSION, STRIPE, 0, 0, 0, 0, 0, length) + STRIPE_PLACE.pack(stripe.number, stripe.offset, stripe.total)


def encode_shared(message: Message, slot: Slot, limits: Limits) -> bytes:
    """A frame whose payload the receiver finds in `slot`."""
    return _head(message, SHARED, limits) + SLOT.pack(slot.number, slot.new)
