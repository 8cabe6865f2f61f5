"""Small frames that have come as a whole: what `decoder.Decoder` does piece by piece, in a quarter of the time."""

from __future__ import annotations

import struct
from math import prod

import torch
from torch import Tensor

from polyrhythm.core.kernel.message import DIMENSION_BYTES, DTYPES, HEADER_BYTES, NUMBER_BYTES, TENSOR_HEADER_BYTES, Message
from polyrhythm.core.processes.transport.wire import CONTROL, HEADER, MAGIC, TENSOR, VERSION, Frame, Limits


def parse_whole(data: memoryview, limits: Limits) -> tuple[Frame, int] | None:
    """The frame at the start of `data`, and its length in bytes.

    None where it is not there as a whole, and where it is anything but plain: malformed, without its payload, with tensors that are empty
    or whose bytes must be looked at. It is then for the decoder, which finds out why. Raises nothing.
    """
    if len(data) < HEADER_BYTES:
        return None
    magic, version, flags, topic, numbers, text, tensors, zero, payload = HEADER.unpack_from(data)
    numbers_at = HEADER_BYTES + topic + text
    kinds_at = numbers_at + NUMBER_BYTES * numbers
    shapes_at = kinds_at + TENSOR_HEADER_BYTES * tensors
    if magic != MAGIC or version != VERSION or zero or flags & ~CONTROL or shapes_at + payload > len(data):
        return None
    if topic > limits.topic or text > limits.text or numbers > limits.numbers or tensors > limits.tensors or payload > limits.payload:
        return None
    shapes, payload_at, total = _shapes(data, kinds_at, shapes_at, limits.dimensions)
    end = payload_at + payload
    if len(shapes) < tensors or end > len(data) or total != payload:
        return None
    try:
        names = str(data[HEADER_BYTES : HEADER_BYTES + topic], "utf-8"), str(data[HEADER_BYTES + topic : numbers_at], "utf-8")
    except UnicodeDecodeError:
        return None
    given = struct.unpack_from(f"<{numbers}d", data, numbers_at) if numbers else ()
    return Frame(flags, Message(names[0], given, names[1], _tensors(data, payload_at, shapes))), end


def _shapes(data: memoryview, at: int, end: int, most: int) -> tuple[list[tuple[torch.dtype, tuple[int, ...], int]], int, int]:
    """Types, dimensions and bytes of the tensors whose headers are between `at` and `end`, up to the first that is not plain.

    Also where their dimensions end, and their bytes in all.
    """
    found = []
    sizes_at, total = end, 0
    for place in range(at, end, TENSOR_HEADER_BYTES):
        code, dimensions, zero = TENSOR.unpack_from(data, place)
        behind = sizes_at + DIMENSION_BYTES * dimensions
        if code >= len(DTYPES) or zero or dimensions > most or behind > len(data):
            break
        dtype, shape = DTYPES[code], struct.unpack_from(f"<{dimensions}Q", data, sizes_at)
        nbytes = dtype.itemsize * prod(shape)
        if not nbytes or dtype is torch.bool:
            break
        found.append((dtype, shape, nbytes))
        sizes_at, total = behind, total + nbytes
    return found, sizes_at, total


def _tensors(data: memoryview, at: int, shapes: list[tuple[torch.dtype, tuple[int, ...], int]]) -> tuple[Tensor, ...]:
    made = []
    for dtype, shape, nbytes in shapes:
        flat = torch.empty(nbytes, dtype=torch.uint8)
        flat.numpy().data[:] = data[at : at + nbytes]
        made.append(flat.view(dtype).view(shape))
        at += nbytes
    return tuple(made)
