"""The inner loops of codecs with numpy and torch, where there was no C compiler; `native.py` gives the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Lengths = NDArray[np.int64]
"""The length of each column (columns,), none of them zero."""

_CODES_A_WORD = 16
_CHUNK = 2**16
"""Elements that stay in a cache between two reads of them."""
_SIGNS = np.array([[(0, 0, -1, 1)[byte >> shift & 3] for shift in (6, 4, 2, 0)] for byte in range(256)], dtype=np.int8)
"""The signs of the four codes of each byte (256, 4)."""


def column_sums(value: Tensor, lengths: Lengths) -> tuple[Tensor, Tensor]:
    """The sums of each column's elements below zero, then those of the others (2 columns,); and the numbers of the others (columns,)."""
    starts = np.cumsum(lengths) - lengths
    above = np.add.reduceat((value.numpy() >= 0).view(np.uint8), starts, dtype=np.int64)
    sums = [np.add.reduceat(part.numpy(), starts) for part in (value.clamp(max=0), value.clamp(min=0))]
    return torch.from_numpy(np.concatenate(sums)), torch.from_numpy(above)


def bits_not_below(value: Tensor, least: float) -> Tensor:
    """A bit for each element (numel,) that is `least` or more, eight in a byte, the first the highest."""
    return torch.from_numpy(np.packbits(value.numpy() >= least))


def bits_above(value: Tensor, least: float) -> Tensor:
    """A bit for each element (numel,) above `least`, eight in a byte, the first the highest."""
    return torch.from_numpy(np.packbits(value.numpy() > least))


def choose(bits: Tensor, lengths: Lengths, means: Tensor) -> Tensor:
    """For each bit its column's second mean if it is set, else the first; `means` has the first means of all columns, then the second.

    Words are chosen by masks: a choice by branches takes five times as long on random bits.
    """
    word = np.int32 if means.dtype == torch.float32 else np.int64
    columns: NDArray[Any] = means.numpy().view(word).reshape(2, -1)
    flags: NDArray[Any] = np.unpackbits(bits.numpy(), count=int(lengths.sum())).astype(word)
    chosen = np.repeat(columns[0] ^ columns[1], lengths)
    chosen &= np.negative(flags, out=flags)
    chosen ^= np.repeat(columns[0], lengths)
    return torch.from_numpy(chosen).view(means.dtype)


def pack_signs(value: Tensor, least: float) -> Tensor:
    """Two bits for each element of `value` (numel,): 11 if it is `least` or more, 10 if -`least` or less, else 00.

    Bytes (4 ⌈numel / 16⌉,), uint8, padded with 00; the first element in the highest bits. NaN is 00.
    """
    array, numel = value.numpy(), value.numel()
    bits = np.zeros((-(-numel // _CODES_A_WORD) * _CODES_A_WORD, 2), dtype=np.bool_)
    bits[:numel, 1] = array >= least
    bits[:numel, 0] = (array <= -least) | bits[:numel, 1]
    return torch.from_numpy(np.packbits(bits))


def unpack_signs(packed: Tensor, size: Tensor, numel: int) -> Tensor:
    """`size` (1,), 0 or -`size` for each of the first `numel` codes of `pack_signs`, in the type of `size`."""
    values = torch.from_numpy(_SIGNS).to(size.dtype) * size
    return values.index_select(0, packed.int()).view(-1)[:numel].contiguous()


def above(value: Tensor, bound: float) -> Tensor:
    """The indices (k,), increasing, of elements whose magnitude is above `bound`."""
    return torch.from_numpy(np.flatnonzero(np.abs(value.numpy()) > bound))


def not_below(value: Tensor, bound: float) -> Tensor:
    """The indices (k,), increasing, of elements whose magnitude is `bound` or more, and of NaN."""
    return torch.from_numpy(np.flatnonzero(~(np.abs(value.numpy()) < bound)))


def bound_of_largest(value: Tensor, count: int) -> float:
    """The magnitude of the `count`-th largest element. NaN counts as largest: `count` or more of them make the bound NaN.

    numpy's partition takes a fifth of the time of torch.topk, and gives a bound instead of a choice among equals, which would
    differ from one processor to another.
    """
    return float(np.partition(np.abs(value.numpy()), -count)[-count])


def rounded(value: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """`value` (numel,) in a smaller type, and the rounded value in its own type; chunk by chunk, so that memory is read once."""
    small, again = torch.empty_like(value, dtype=dtype), torch.empty_like(value)
    for start in range(0, value.numel(), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        small[chunk] = value[chunk]
        again[chunk] = small[chunk]
    return small, again
