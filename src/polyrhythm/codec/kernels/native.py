"""The inner loops of codecs in C: see `_kernels.c`, and `portable.py` for what each of them does."""

from __future__ import annotations

import torch
from torch import Tensor

from polyrhythm.codec.kernels import portable
from polyrhythm.codec.kernels._kernels import bits as make_bits  # in this form, what is missing can be distinguished from what is broken
from polyrhythm.codec.kernels._kernels import bound_of_largest as find_bound
from polyrhythm.codec.kernels._kernels import chosen as make_chosen
from polyrhythm.codec.kernels._kernels import columns as sum_columns
from polyrhythm.codec.kernels._kernels import count_large, large
from polyrhythm.codec.kernels._kernels import pack_signs as pack
from polyrhythm.codec.kernels._kernels import rounded as make_rounded
from polyrhythm.codec.kernels._kernels import unpack_signs as unpack
from polyrhythm.codec.kernels.portable import Lengths

_LARGE = 2**20
"""From this number of elements on, stores should bypass the caches."""

__all__ = [
    "above",
    "bits_above",
    "bits_not_below",
    "bound_of_largest",
    "choose",
    "column_sums",
    "not_below",
    "pack_signs",
    "rounded",
    "unpack_signs",
]


def column_sums(value: Tensor, lengths: Lengths) -> tuple[Tensor, Tensor]:
    value = value.contiguous()
    sums, counts = value.new_empty(2 * len(lengths)), torch.empty(len(lengths), dtype=torch.int64)
    sum_columns(value.data_ptr(), _wide(value), lengths.ctypes.data, len(lengths), sums.data_ptr(), counts.data_ptr())
    return sums, counts


def bits_not_below(value: Tensor, least: float) -> Tensor:
    return _bits(value, least, strict=False)


def bits_above(value: Tensor, least: float) -> Tensor:
    return _bits(value, least, strict=True)


def choose(bits: Tensor, lengths: Lengths, means: Tensor) -> Tensor:
    bits, means = bits.contiguous(), means.contiguous()
    chosen = means.new_empty(int(lengths.sum()))
    make_chosen(bits.data_ptr(), _wide(means), lengths.ctypes.data, len(lengths), means.data_ptr(), chosen.data_ptr())
    return chosen


def pack_signs(value: Tensor, least: float) -> Tensor:
    value = value.contiguous()
    packed = torch.empty(4 * -(-value.numel() // 16), dtype=torch.uint8)
    packed[value.numel() // 4 :] = 0
    pack(value.data_ptr(), _wide(value), value.numel(), least, packed.data_ptr())
    return packed


def unpack_signs(packed: Tensor, size: Tensor, numel: int) -> Tensor:
    packed = packed.contiguous()
    values = size.new_empty(numel)
    unpack(packed.data_ptr(), _wide(size), numel, size.item(), values.data_ptr())
    return values


def above(value: Tensor, bound: float) -> Tensor:
    return _large(value, bound, strict=True)


def not_below(value: Tensor, bound: float) -> Tensor:
    return _large(value, bound, strict=False)


def bound_of_largest(value: Tensor, count: int) -> float:
    if value.dtype != torch.float32:
        return portable.bound_of_largest(value, count)
    value = value.contiguous()
    return find_bound(value.data_ptr(), value.numel(), count)


def rounded(value: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    if value.numel() < _LARGE or value.dtype != torch.float32:
        return portable.rounded(value, dtype)
    value = value.contiguous()
    small, again = torch.empty_like(value, dtype=dtype), torch.empty_like(value)
    whole = value.numel() - value.numel() % 8
    if not make_rounded(value.data_ptr(), whole, dtype == torch.bfloat16, small.data_ptr(), again.data_ptr()):
        return portable.rounded(value, dtype)
    small[whole:] = value[whole:]
    again[whole:] = small[whole:]
    return small, again


def _bits(value: Tensor, least: float, strict: bool) -> Tensor:
    value = value.contiguous()
    packed = torch.empty(-(-value.numel() // 8), dtype=torch.uint8)
    make_bits(value.data_ptr(), _wide(value), value.numel(), least, strict, packed.data_ptr())
    return packed


def _large(value: Tensor, bound: float, strict: bool) -> Tensor:
    value = value.contiguous()
    count = count_large(value.data_ptr(), _wide(value), value.numel(), bound, strict)
    found = torch.empty(count, dtype=torch.int64)
    large(value.data_ptr(), _wide(value), value.numel(), bound, strict, found.data_ptr())
    return found


def _wide(value: Tensor) -> bool:
    assert value.dtype in (torch.float32, torch.float64), f"codecs are for float32 and float64, not {value.dtype}"
    return value.dtype == torch.float64
