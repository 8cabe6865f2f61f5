"""Messages as bytes: a small typed header and the raw buffers of the tensors, exactly `kernel.message.wire_bytes` long.

    header   magic "PR" | version u8 | flags u8 | topic u16 | numbers u16 | text u32 | tensors u16 | zero u16 | payload u64
    fixed    topic | text | numbers as float64 | per tensor: dtype u8, dimensions u8, zero u16
    shapes   per tensor and dimension: u64
    slot     only with the flag SHARED: number u32, new u32; the payload is then in that slot of shared memory
    payload  the raw buffers, end to end

All is little-endian. Nothing is ever unpickled. A length is believed only up to its limit, and the memory of a tensor is
asked for when its turn comes (the system backs it with pages as they fill).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from polyrhythm.errors import WireError
from polyrhythm.kernel.message import DIMENSION_BYTES, DTYPES, HEADER_BYTES, NUMBER_BYTES, TENSOR_HEADER_BYTES, Message
from polyrhythm.tensors import as_bytes

MAGIC = b"PR"
VERSION = 1
CONTROL = 1
SHARED = 2

_HEADER = struct.Struct("<2sBBHHIHHQ")
_TENSOR = struct.Struct("<BBH")
_SLOT = struct.Struct("<II")
_CODES = {dtype: code for code, dtype in enumerate(DTYPES)}
_SIZES = tuple(dtype.itemsize for dtype in DTYPES)
assert _HEADER.size == HEADER_BYTES
assert _TENSOR.size == TENSOR_HEADER_BYTES


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that a frame may hold: bytes of topic, text and payload; numbers, tensors, and dimensions of a tensor."""

    topic: int = 200
    text: int = 4 * 1024 * 1024
    numbers: int = 4096
    tensors: int = 4096
    dimensions: int = 8
    payload: int = 4 << 30


@dataclass(slots=True)
class Tally:
    """What decoders have seen: good frames, and streams that were given up for malformed bytes."""

    accepted: int = 0
    rejected: int = 0


@dataclass(slots=True)
class Frame:
    """A decoded message and its flags; CONTROL frames are the runtime's own and are not counted as traffic."""

    flags: int
    message: Message


@dataclass(slots=True)
class Slot:
    """Where in shared memory the payload of a frame lies; `new` when the receiver gets the slot's memory with this frame."""

    number: int
    new: bool


Shape = tuple[torch.dtype, tuple[int, ...]]
Fetch = Callable[[Slot, list[Shape]], tuple[Tensor, ...]]


def nbytes(shape: Shape) -> int:
    """Bytes of a tensor of this type and these dimensions."""
    return shape[0].itemsize * prod(shape[1])


def _head(message: Message, flags: int, limits: Limits) -> bytes:
    topic, text, tensors = message.topic.encode(), message.text.encode(), message.tensors
    payload = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    given = (len(topic), len(text), len(message.numbers), len(tensors), max((t.dim() for t in tensors), default=0), payload)
    allowed = (limits.topic, limits.text, limits.numbers, limits.tensors, limits.dimensions, limits.payload)
    for size, limit, what in zip(given, allowed, _WHAT, strict=True):
        if size > limit:
            raise WireError(f"A message {message.topic[:40]!r} has {size} {what}, and at most {limit} can be sent: cut it into several.")
    try:
        kinds = b"".join(_TENSOR.pack(_CODES[tensor.dtype], tensor.dim(), 0) for tensor in tensors)
    except KeyError as unknown:
        raise WireError(f"A message {message.topic[:40]!r} holds a tensor of {unknown.args[0]}, which has no code on the wire.") from None
    dimensions = [size for tensor in tensors for size in tensor.shape]
    return b"".join(
        (
            _HEADER.pack(MAGIC, VERSION, flags, len(topic), len(message.numbers), len(text), len(tensors), 0, payload),
            topic,
            text,
            struct.pack(f"<{len(message.numbers)}d", *message.numbers),
            kinds,
            struct.pack(f"<{len(dimensions)}Q", *dimensions),
        )
    )


_WHAT = ("bytes of topic", "bytes of text", "numbers", "tensors", "dimensions in one tensor", "bytes of payload")


def encode(message: Message, flags: int = 0, limits: Limits | None = None) -> list[bytes | memoryview]:
    """The buffers that make up a frame: its head, and the memory of each tensor, not copied. Raises WireError on what cannot be said."""
    buffers: list[bytes | memoryview] = [_head(message, flags, limits or Limits())]
    buffers.extend(as_bytes(tensor) for tensor in message.tensors if tensor.numel())
    return buffers


def packed(data: bytes) -> tuple[Tensor, ...]:
    """Bytes as the payload of a message of the runtime's own."""
    return (torch.frombuffer(bytearray(data), dtype=torch.uint8),)


def encode_shared(message: Message, slot: Slot, limits: Limits) -> bytes:
    """A frame whose payload the receiver finds in `slot`."""
    return _head(message, SHARED, limits) + _SLOT.pack(slot.number, slot.new)


class Decoder:
    """Frames out of a stream of bytes that comes in pieces of any size.

    Either `feed` it bytes, or read straight into `space()` and tell it how many with `advance`. Raises WireError at the
    first malformed frame, counts that in `tally`, and takes nothing more. `fetch` reads payloads from shared memory;
    without it such frames are malformed.
    """

    def __init__(self, limits: Limits | None = None, tally: Tally | None = None, fetch: Fetch | None = None) -> None:
        self.limits = limits or Limits()
        self.tally = tally or Tally()
        self._fetch = fetch
        self._frames: list[Frame] = []
        self._within = False
        self._broken = False
        self._parser = self._parse()
        self._target = next(self._parser)
        self._filled = 0

    def space(self) -> memoryview:
        """Where the next bytes belong; never empty."""
        return self._target[self._filled :]

    def advance(self, count: int) -> list[Frame]:
        """Take note that the first `count` bytes of `space()` were filled; the frames that this completed."""
        if self._broken:
            raise WireError("The stream was given up after a malformed frame.")
        self._filled += count
        if self._filled == len(self._target):
            try:
                self._target = next(self._parser)
            except WireError:
                self._reject()
                raise
            except (RuntimeError, OverflowError, MemoryError) as problem:  # what torch says of a size it cannot have
                self._reject()
                raise WireError(f"A frame's tensor cannot be had: {problem}") from problem
            self._filled = 0
        done, self._frames = self._frames, []
        return done

    def filled(self, count: int) -> Iterator[Frame]:
        """As `advance`, but looking at the bytes only when the frames are asked for."""
        if count:
            yield from self.advance(count)

    def feed(self, data: bytes | memoryview) -> Iterator[Frame]:
        """Take `data` in; yields each frame that it completes before it looks at the bytes behind, for which limits may have changed."""
        view = memoryview(data)
        while len(view):
            space = self.space()
            count = min(len(space), len(view))
            space[:count] = view[:count]
            yield from self.advance(count)
            view = view[count:]

    def finish(self) -> None:
        """The stream has ended: raises WireError if that was in the middle of a frame."""
        if not self._broken and (self._within or self._filled):
            self._reject()
            raise WireError("The stream ended in the middle of a frame.")

    def _reject(self) -> None:
        self._broken = True
        self.tally.rejected += 1

    def _parse(self) -> Generator[memoryview, None, None]:
        while True:
            head = bytearray(HEADER_BYTES)
            self._within = False
            yield memoryview(head)
            self._within = True
            flags, topic_size, number_count, text_size, tensor_count, payload = self._check(head)
            fixed = bytearray(topic_size + text_size + NUMBER_BYTES * number_count + TENSOR_HEADER_BYTES * tensor_count)
            if fixed:
                yield memoryview(fixed)
            numbers_at = topic_size + text_size
            topic, text = _text(fixed[:topic_size]), _text(fixed[topic_size:numbers_at])
            numbers = struct.unpack_from(f"<{number_count}d", fixed, numbers_at)
            kinds = self._kinds(fixed[numbers_at + NUMBER_BYTES * number_count :])
            sizes = bytearray(DIMENSION_BYTES * sum(count for _, count in kinds) + (_SLOT.size if flags & SHARED else 0))
            if sizes:
                yield memoryview(sizes)
            shapes = _shapes(kinds, sizes, payload)
            if flags & SHARED:
                tensors = self._shared(sizes, shapes)
            else:
                received = []
                for dtype, dimensions in shapes:
                    tensor = torch.empty(dimensions, dtype=dtype)
                    if tensor.numel():
                        yield as_bytes(tensor)
                        _check_values(tensor)
                    received.append(tensor)
                tensors = tuple(received)
            self.tally.accepted += 1
            self._frames.append(Frame(flags, Message(topic, numbers, text, tensors)))

    def _check(self, head: bytearray) -> tuple[int, int, int, int, int, int]:
        magic, version, flags, topic, numbers, text, tensors, zero, payload = _HEADER.unpack(head)
        if magic != MAGIC or zero:
            raise WireError("These bytes are not a frame of Polyrhythm's.")
        if version != VERSION:
            raise WireError(
                f"The peer speaks version {version} of the wire format and this process version {VERSION}: install the same one."
            )
        allowed = CONTROL | (SHARED if self._fetch else 0)
        if flags & ~allowed:
            raise WireError(f"A frame has flags {flags:#x}, of which only {allowed:#x} are known here.")
        limits = self.limits
        given = (topic, text, numbers, tensors, 0, payload)
        most = (limits.topic, limits.text, limits.numbers, limits.tensors, 0, limits.payload)
        for size, limit, what in zip(given, most, _WHAT, strict=True):
            if size > limit:
                raise WireError(f"A frame announces {size} {what}; at most {limit} are allowed.")
        return flags, topic, numbers, text, tensors, payload

    def _kinds(self, heads: bytearray) -> list[tuple[torch.dtype, int]]:
        kinds = []
        for code, dimensions, zero in _TENSOR.iter_unpack(heads):
            if code >= len(DTYPES) or dimensions > self.limits.dimensions or zero:
                raise WireError(f"A frame announces a tensor of type {code} with {dimensions} dimensions.")
            kinds.append((DTYPES[code], dimensions))
        return kinds

    def _shared(self, sizes: bytearray, shapes: list[Shape]) -> tuple[Tensor, ...]:
        number, new = _SLOT.unpack_from(sizes, len(sizes) - _SLOT.size)
        if new > 1 or self._fetch is None:
            raise WireError("A frame points to shared memory in a way that is not known.")
        tensors = self._fetch(Slot(number, bool(new)), shapes)
        for tensor in tensors:
            _check_values(tensor)
        return tensors


def _text(data: bytearray) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise WireError("A frame's topic or text is not UTF-8.") from None


def _shapes(kinds: list[tuple[torch.dtype, int]], sizes: bytearray, payload: int) -> list[Shape]:
    """The shapes of a frame's tensors, whose sizes must add up to `payload`."""
    shapes, at, total = [], 0, 0
    for dtype, count in kinds:
        dimensions = struct.unpack_from(f"<{count}Q", sizes, at)
        at += DIMENSION_BYTES * count
        # a zero beside huge dimensions has no bytes, and yet no tensor can have that shape
        if prod(size or 1 for size in dimensions) > max(payload, 1 << 20):
            raise WireError("A frame announces a tensor larger than its payload.")
        total += nbytes((dtype, dimensions))
        shapes.append((dtype, dimensions))
    if total != payload:
        raise WireError(f"A frame announces {payload} bytes of payload and tensors of {total}.")
    return shapes


def _check_values(tensor: Tensor) -> None:
    if tensor.dtype == torch.bool and tensor.numel() and int(tensor.view(torch.uint8).max()) > 1:
        raise WireError("A frame holds a truth value that is neither 0 nor 1.")
