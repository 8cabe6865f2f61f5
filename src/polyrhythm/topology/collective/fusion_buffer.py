"""Several tensors in one buffer, laid out so that each is summed as it would be alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

Block = tuple[slice, slice, slice]
"""Rows and columns of the buffer, and the range of a tensor that lies there."""


def joined(values: Sequence[Tensor], workers: int) -> Tensor:
    """The flat `values`, of one type, in one buffer; one alone is the buffer itself.

    Rings and direct exchanges cut a tensor in P parts and begin the sum of part k with worker k. The buffer's part k consists of the k-th
    parts of all values, so that fusion changes no bit of a sum; zeros make its parts equally long.
    """
    if len(values) == 1:
        return values[0]
    buffer = values[0].new_zeros(workers, sum(_width(value, workers) for value in values))
    for value, blocks in zip(values, _blocks(values, workers), strict=True):
        for rows, columns, part in blocks:
            place = buffer[rows, columns]
            place.copy_(value[part].view(place.shape))
    return buffer.view(-1)


def parted(buffer: Tensor, like: Sequence[Tensor], workers: int) -> list[Tensor]:
    """The values that were `joined`, from a buffer of their sums."""
    if len(like) == 1:
        return [buffer]
    rows_of, values = buffer.view(workers, -1), []
    for value, blocks in zip(like, _blocks(like, workers), strict=True):
        copied = torch.empty_like(value)
        for rows, columns, part in blocks:
            place = rows_of[rows, columns]
            copied[part].view(place.shape).copy_(place)
        values.append(copied)
    return values


def _width(value: Tensor, workers: int) -> int:
    return -(-value.numel() // workers)


def _blocks(values: Sequence[Tensor], workers: int) -> Iterator[list[Block]]:
    """The blocks of each value: the parts that are longer by one element, and the others."""
    start = 0
    for value in values:
        width, longer = _width(value, workers), value.numel() % workers or workers
        end = longer * width
        yield [
            (slice(0, longer), slice(start, start + width), slice(0, end)),
            (slice(longer, workers), slice(start, start + max(0, width - 1)), slice(end, value.numel())),
        ]
        start += width
