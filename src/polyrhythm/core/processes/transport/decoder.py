"""Frames out of a stream of bytes."""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator
from math import prod

import torch
from torch import Tensor

from polyrhythm.core.kernel.message import DIMENSION_BYTES, DTYPES, HEADER_BYTES, NUMBER_BYTES, TENSOR_HEADER_BYTES, Message
from polyrhythm.core.processes.transport.whole_frames import parse_whole
from polyrhythm.core.processes.transport.wire import (
    CONTROL,
    HEADER,
    MAGIC,
    NUMBER,
    SHARED,
    SLOT,
    STRIPE,
    STRIPE_PLACE,
    STRIPED,
    TENSOR,
    VERSION,
    WHAT,
    Fetch,
    Frame,
    Limits,
    Shape,
    Slot,
    Stripe,
    StripeSink,
    Tally,
    nbytes,
)  # fmt: skip
from polyrhythm.core.tensors import as_bytes
from polyrhythm.errors import WireError


class Decoder:
    """Frames out of a stream of bytes that comes in pieces of any size.

    Either `feed` it bytes, or read straight into `space()` and pass how many to `advance`. Raises WireError at the
    first malformed frame, counts that in `tally`, and takes nothing more. `fetch` reads payloads from shared memory;
    without it such frames are malformed, and so are stripes without a `board` to put them together.
    """

    def __init__(self, limits: Limits | None = None, tally: Tally | None = None, fetch: Fetch | None = None) -> None:
        self.limits = limits or Limits()
        self.tally = tally or Tally()
        self.board: StripeSink | None = None
        self._fetch = fetch
        self._frames: list[Frame] = []
        self._within = False
        self._broken = False
        self._parser = self._parse()
        self._target = next(self._parser)
        self._filled = 0

    def space(self) -> memoryview:
        """The memory where the next bytes belong; never empty."""
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
            except (RuntimeError, OverflowError, MemoryError) as problem:  # what torch raises for a size it cannot have
                self._reject()
                raise WireError(f"A frame's tensor cannot be had: {problem}") from problem
            self._filled = 0
        done, self._frames = self._frames, []
        return done

    def filled(self, count: int) -> Iterator[Frame]:
        """The frames that the first `count` bytes of `space()` complete; the bytes are looked at only when the frames are taken."""
        if count:
            yield from self.advance(count)

    def feed(self, data: bytes | memoryview) -> Iterator[Frame]:
        """Take `data` in; yields each frame that it completes before it looks at the bytes behind, for which limits may have changed."""
        view = memoryview(data)
        while len(view):
            between = not (self._within or self._filled or self._broken)
            if between and (found := parse_whole(view, self.limits)) is not None:
                frame, size = found
                self.tally.accepted += 1
                yield frame
                view = view[size:]
                continue
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
            if flags & STRIPE:
                yield from self._stripe(payload)
                continue
            fixed = bytearray(topic_size + text_size + NUMBER_BYTES * number_count + TENSOR_HEADER_BYTES * tensor_count)
            if fixed:
                yield memoryview(fixed)
            numbers_at = topic_size + text_size
            topic, text = _text(fixed[:topic_size]), _text(fixed[topic_size:numbers_at])
            numbers = struct.unpack_from(f"<{number_count}d", fixed, numbers_at)
            kinds = self._kinds(fixed[numbers_at + NUMBER_BYTES * number_count :])
            sizes = bytearray(DIMENSION_BYTES * sum(count for _, count in kinds) + _trailer(flags))
            if sizes:
                yield memoryview(sizes)
            tensors = yield from self._tensors(flags, sizes, _shapes(kinds, sizes, payload))
            self._emit(Frame(flags, Message(topic, numbers, text, tensors)))
            del tensors  # the next frame may be long in coming, and shared memory is free when it is not referenced

    def _tensors(self, flags: int, sizes: bytearray, shapes: list[Shape]) -> Generator[memoryview, None, tuple[Tensor, ...]]:
        if flags & SHARED:
            return self._shared(sizes, shapes)
        if flags & STRIPED:
            assert self.board is not None
            (number,) = NUMBER.unpack_from(sizes, len(sizes) - NUMBER.size)
            return self.board.announce(number, shapes)
        received = []
        for dtype, dimensions in shapes:
            tensor = torch.empty(dimensions, dtype=dtype)
            if tensor.numel():
                yield as_bytes(tensor)
                check_values(tensor)
            received.append(tensor)
        return tuple(received)

    def _stripe(self, length: int) -> Generator[memoryview, None, None]:
        assert self.board is not None
        written = bytearray(STRIPE_PLACE.size)
        yield memoryview(written)
        stripe = Stripe(*STRIPE_PLACE.unpack(written))
        if stripe.total > self.limits.payload:
            raise WireError(f"A stripe is of {stripe.total} bytes of payload; at most {self.limits.payload} are allowed.")
        yield self.board.place(stripe, length)
        self.board.fill(stripe, length)
        self._emit(Frame(STRIPE, Message("")))

    def _emit(self, frame: Frame) -> None:
        self.tally.accepted += 1
        self._frames.append(frame)

    def _check(self, head: bytearray) -> tuple[int, int, int, int, int, int]:
        magic, version, flags, topic, numbers, text, tensors, zero, payload = HEADER.unpack(head)
        if magic != MAGIC or zero:
            raise WireError("These bytes are not a frame of Polyrhythm's.")
        if version != VERSION:
            raise WireError(f"The peer has wire version {version}, and this is {VERSION}: install the same Polyrhythm everywhere.")
        allowed = CONTROL | (SHARED if self._fetch else 0) | (STRIPED | STRIPE if self.board else 0)
        if flags & ~allowed or (flags & ~CONTROL).bit_count() > 1:
            raise WireError(f"A frame has flags {flags:#x}; here one of {allowed:#x} is known.")
        if flags & STRIPE and (flags & CONTROL or topic or numbers or text or tensors or not payload):
            raise WireError("A stripe is empty, or has something in it that is no stripe's.")
        limits = self.limits
        given = (topic, text, numbers, tensors, 0, payload)
        most = (limits.topic, limits.text, limits.numbers, limits.tensors, 0, limits.payload)
        for size, limit, what in zip(given, most, WHAT, strict=True):
            if size > limit:
                raise WireError(f"A frame announces {size} {what}; at most {limit} are allowed.")
        return flags, topic, numbers, text, tensors, payload

    def _kinds(self, heads: bytearray) -> list[tuple[torch.dtype, int]]:
        kinds = []
        for code, dimensions, zero in TENSOR.iter_unpack(heads):
            if code >= len(DTYPES) or dimensions > self.limits.dimensions or zero:
                raise WireError(f"A frame announces a tensor of type {code} with {dimensions} dimensions.")
            kinds.append((DTYPES[code], dimensions))
        return kinds

    def _shared(self, sizes: bytearray, shapes: list[Shape]) -> tuple[Tensor, ...]:
        number, new = SLOT.unpack_from(sizes, len(sizes) - SLOT.size)
        if new > 1 or self._fetch is None:
            raise WireError("A frame points to shared memory in a way that is not known.")
        tensors = self._fetch(Slot(number, bool(new)), shapes)
        for tensor in tensors:
            check_values(tensor)
        return tensors


def _trailer(flags: int) -> int:
    """The bytes that a frame has behind its shapes."""
    return SLOT.size if flags & SHARED else NUMBER.size if flags & STRIPED else 0


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
        # a zero next to huge dimensions has no bytes, and yet no tensor can have that shape
        if prod(size or 1 for size in dimensions) > max(payload, 1 << 20):
            raise WireError("A frame announces a tensor larger than its payload.")
        total += nbytes((dtype, dimensions))
        shapes.append((dtype, dimensions))
    if total != payload:
        raise WireError(f"A frame announces {payload} bytes of payload and tensors of {total}.")
    return shapes


def check_values(tensor: Tensor) -> None:
    """Raises WireError if the bytes that came are no values of the tensor's type."""
    if tensor.dtype == torch.bool and tensor.numel() and int(tensor.view(torch.uint8).max()) > 1:
        raise WireError("A frame holds a truth value that is neither 0 nor 1.")
