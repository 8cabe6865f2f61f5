"""Operations on samples that were read together: count, slice, join, and encoding as bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor

from polyrhythm.core.protocols.sharded import Rows
from polyrhythm.errors import DataError

_TENSOR, _TUPLE, _ARRAY = 1, 2, 3
"""The codes of msgpack extensions for types that it lacks."""


def length(rows: Rows) -> int:
    """The number of samples. Raises DataError for columns of different lengths."""
    if isinstance(rows, list):
        return len(rows)
    lengths = {name: len(column) for name, column in rows.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"The columns have the lengths {lengths}: give columns with one entry per sample each.")
    return next(iter(lengths.values()), 0)


def part(rows: Rows, start: int, stop: int) -> Rows:
    """The samples from `start` to below `stop`."""
    if isinstance(rows, list):
        return rows[start:stop]
    return {name: column[start:stop] for name, column in rows.items()}


def strided(rows: Rows, start: int, stride: int) -> Rows:
    """Every `stride`-th sample from the number `start` on."""
    if isinstance(rows, list):
        return rows[start::stride]
    return {name: column[start::stride] for name, column in rows.items()}


def joined(several: Sequence[Rows]) -> Rows:
    """The samples of `several`, in order, copied if they are of more than one. Raises DataError if their columns differ."""
    first = several[0]
    if len(several) == 1:
        return first
    if isinstance(first, list):
        return [sample for rows in several for sample in rows]
    for rows in several:
        if isinstance(rows, list) or rows.keys() != first.keys():
            found = "samples without columns" if isinstance(rows, list) else f"the columns {', '.join(rows)}"
            raise DataError(f"The columns {', '.join(first)} are followed by {found}: give the same columns throughout, in every shard.")
    return {name: _joined([rows[name] for rows in several if not isinstance(rows, list)]) for name in first}


def _joined(columns: list[Tensor | list[Any]]) -> Tensor | list[Any]:
    tensors = [column for column in columns if isinstance(column, Tensor)]
    if len(tensors) == len(columns) and len({(tensor.shape[1:], tensor.dtype) for tensor in tensors}) == 1:
        return torch.cat(tensors)
    return [entry for column in columns for entry in column]


class Reader:
    """Reads samples one after the other from rows of any lengths."""

    def __init__(self, several: Iterable[Rows]) -> None:
        self._several: Iterator[Rows] = iter(several)
        self._held: list[Rows] = []
        self._start = 0
        self.available = 0

    def fill(self, count: int) -> int:
        """Read until `count` samples are held or there are no more; returns the number held."""
        while self.available < count:
            rows = next(self._several, None)
            if rows is None:
                break
            if size := length(rows):
                self._held.append(rows)
                self.available += size
        return self.available

    def take(self, count: int) -> Rows:
        """The next `count` samples, which must be held."""
        taken: list[Rows] = []
        self.available -= count
        while count:
            rows = self._held[0]
            stop = min(length(rows), self._start + count)
            taken.append(part(rows, self._start, stop))
            count -= stop - self._start
            self._start = stop
            if stop == length(rows):
                self._held.pop(0)
                self._start = 0
        return joined(taken)

    def rest(self) -> Iterator[Rows]:
        """What was not taken, held or not."""
        for place, rows in enumerate(self._held):
            yield part(rows, self._start if place == 0 else 0, length(rows))
        yield from self._several


def packed(rows: Rows) -> bytes:
    """`rows` as bytes. Raises DataError for a sample with values that cannot be encoded."""
    try:
        return msgspec.msgpack.encode(_marked(rows), enc_hook=_refused)
    except OverflowError as problem:
        raise DataError(
            f"A sample has a whole number of more than 64 bits, which cannot be sent to another worker: {problem}."
        ) from problem


def unpacked(data: bytes) -> Rows:
    """The samples in bytes that `packed` made."""
    rows: Rows = msgspec.msgpack.decode(data, ext_hook=_unmarked)
    return rows


def _marked(value: Any) -> Any:
    if isinstance(value, Tensor):
        return msgspec.msgpack.Ext(_TENSOR, save({"": value.detach().cpu().contiguous()}))
    if isinstance(value, np.ndarray) and value.dtype != object:
        return msgspec.msgpack.Ext(_ARRAY, save({"": torch.from_numpy(np.ascontiguousarray(value))}))
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple):
        return msgspec.msgpack.Ext(_TUPLE, msgspec.msgpack.encode([_marked(each) for each in value], enc_hook=_refused))
    if isinstance(value, list):
        return [_marked(each) for each in value]
    if isinstance(value, dict):
        return {key: _marked(each) for key, each in value.items()}
    return value


def _unmarked(code: int, data: memoryview) -> Any:
    if code == _TUPLE:
        return tuple(msgspec.msgpack.decode(bytes(data), ext_hook=_unmarked))
    tensor = load(bytes(data))[""]
    return tensor if code == _TENSOR else tensor.numpy()


def _refused(value: Any) -> Any:
    raise DataError(
        f"The last samples of an epoch are dealt out evenly, so some go from one worker to another, and a {type(value).__name__} cannot: "
        "give samples of tensors, arrays, numbers, text and bytes, or drop_last=True."
    )
